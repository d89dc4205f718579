"""The command's entry point: what a person sees where the machine or a flag is at fault."""

import io
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from launchers.exits import Exit, LaunchError
from scripts.helm import ROOT
from scripts.plan import command as planning
from tests.scripts.calling import Call


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device"), 1),
        (LaunchError(Exit.IO, "no answer", "check the mount", id="storage-unknown"), 4),
    ],
)
def test_what_the_machine_refuses_is_one_line(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def full(request: planning.Request, console: Console, **_: bool) -> int:
        raise error

    monkeypatch.setattr(planning, "run", full)
    assert call("plan") == (code, "", f"error: {error}\n")


def test_a_terminal_without_bars_shows_question_marks(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def draw(request: planning.Request, console: Console, **_: bool) -> int:
        console.print("63 of 79 GiB █░")
        return 0

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(planning, "run", draw)
    assert call("plan").code == 0
    stream.seek(0)
    assert stream.read() == "63 of 79 GiB ??\n"


MANY_LINES = """
from launchers.exits import Exit, LaunchError
from scripts import cli
from scripts.plan import command

command.run = lambda request, console, **_: [print("line") for _ in range(100_000)] and 0
cli.main(["plan"])
"""


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    pipes: Any = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    words = [sys.executable, "-c", MANY_LINES]
    with subprocess.Popen(words, cwd=ROOT, text=True, **pipes) as running:
        assert running.stdout and running.stderr
        assert running.stdout.readline() == "line\n"
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        *(("plan", "--tokens", number) for number in ("inf", "nan", "1e300")),
        ("plan", "--pairs", "9" * 30),
        ("report", "a" * 5000, "--source", "mount"),
        ("bundle", "a" * 300, "--no-cluster"),
        ("report", "dpo", "--source", "mount", "--workspace", "w" * 300),
        ("clean", "--workspace", "w" * 300),
        ("plan", "-f", "f" * 5000),
        ("doctor", "-f", "f" * 5000),
        ("status", "a" * 300),
        ("stop", "a" * 300),
    ],
    ids=lambda words: " ".join(word[:9] for word in words),
)
def test_a_number_that_no_dataset_has_and_a_path_that_is_too_long_are_wrong_arguments(
    words: tuple[str, ...], call: Call
) -> None:
    ended = call(*words)
    assert ended.code == 2 and len(ended.err) < 1200


@pytest.mark.parametrize("verb", [(), ("plan",)])
def test_h_is_help(verb: tuple[str, ...], call: Call) -> None:
    ended = call(*verb, "-h")
    assert ended.code == 0 and "Usage:" in ended.out
