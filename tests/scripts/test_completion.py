"""Shell completion of runs: of the namespace, of a mounted workspace, and of folders."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from scripts import cli
from scripts.doctor.api import Api
from tests.scripts.kubeconfig import select
from tests.scripts.observe.server import Cluster

VERBS = ("status", "why", "logs", "stop", "resume", "rerun", "clean", "report", "bundle")
Complete = Callable[[Sequence[str], str], list[str]]


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """The names that the command gives a bash for the last word."""

    def complete(words: Sequence[str], incomplete: str) -> list[str]:
        line = ["megatron-dpo", *words, incomplete]
        monkeypatch.setenv("_MEGATRON_DPO_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", shlex.join(line))
        monkeypatch.setenv("COMP_CWORD", str(len(line) - 1))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            cli.app(prog_name="megatron-dpo")
        return capsys.readouterr().out.split()

    return complete


def test_verbs_are_completed(completed: Complete) -> None:
    found = completed([], "s")
    assert {"status", "stop", "submit"} <= {*found} and "why" not in found


@pytest.mark.parametrize("verb", VERBS)
def test_the_runs_of_the_namespace_are_completed(
    completed: Complete, verb: str, api: Api, cluster: Cluster
) -> None:
    assert completed([verb], "") == completed([verb], "d") == ["dpo"]
    assert completed([verb], "x") == completed([verb, "--namespace", "vision"], "") == []
    if verb in ("clean", "report"):
        assert completed([verb, "dpo-1"], "dp") == ["dpo"], "further runs"
    assert not any("exec" in each for each in cluster.asked)


@pytest.mark.parametrize("verb", ["status", "why", "logs", "clean", "report", "bundle"])
def test_the_runs_of_a_mounted_workspace_are_completed_without_a_cluster(
    completed: Complete, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(tmp_path / "none", monkeypatch)
    assert completed([verb], "") == []
    for name in ("dpo-41", "dpo-42", "sft-1", ".dpo-1.removing"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    place_words = [verb, "--workspace", str(tmp_path)]
    assert completed(place_words, "dpo") == ["dpo-41", "dpo-42"]
    monkeypatch.setenv("MEGATRON_DPO_WORKSPACE", str(tmp_path))
    assert completed([verb], "s") == ["sft-1"]
    (tmp_path / "runs").rename(tmp_path / "away")
    (tmp_path / "runs").symlink_to("runs")
    assert completed([verb], "s") == []


@pytest.mark.parametrize("verb", ["report", "bundle"])
def test_folders_are_completed(completed: Complete, verb: str, tmp_path: Path) -> None:
    for name in ("one[1]", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "one.txt").touch()
    assert completed([verb], f"{tmp_path}/o") == [f"{tmp_path}/one[1]/", f"{tmp_path}/other/"]
    assert completed([verb], f"{tmp_path}/one[") == [f"{tmp_path}/one[1]/"]
