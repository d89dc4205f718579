"""`python -m tests.e2e.cluster`: options, help and messages; it starts nothing here."""

import pytest
from rich.text import Text

from scripts.problem import Problem
from tests.e2e.cluster import __main__ as command
from tests.e2e.cluster import cluster
from tests.e2e.cluster.layout import Layout


def end(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    return int(str(ended.value.code or 0))


def test_a_cluster_without_nodes_is_a_wrong_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def locked(layout: Layout) -> None:
        raise Problem("it would start")

    monkeypatch.setattr(cluster, "locked", locked)
    assert end("up", "--nodes", "0") == 2
    shown = Text.from_ansi(capsys.readouterr().err).plain
    assert "'--nodes'" in shown and " 1 " in shown
    assert end("up", "--nodes", "1") == 1
    assert capsys.readouterr().err == "error: it would start\n"


@pytest.mark.parametrize("verb", [(), ("up",), ("down",), ("status",), ("load-image",)])
def test_h_shows_the_usage(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert end(*verb, "-h") == 0
    assert "Usage: python -m tests.e2e.cluster" in capsys.readouterr().out
