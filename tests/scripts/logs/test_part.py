"""Logs of attempts through pods: in bounded parts, filtered where the file is, limits named."""

import io
import json
import re
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.state import log_part as part
from scripts.doctor.api import Api
from scripts.logs import command, files
from scripts.logs.command import Selection
from scripts.observe.command import Target
from scripts.observe.ways import Source
from scripts.problem import Problem

Captured = pytest.CaptureFixture[str]
LINES = [f"{'ERROR' if number % 50 == 0 else 'loss'} {number}" for number in range(1000)]
TEXTS = st.lists(st.sampled_from([b"\n", b"a", b"bc\n", b"x" * 70_000]), max_size=9).map(b"".join)


@pytest.fixture
def log(workspace: Path) -> Path:
    folder = workspace / "runs" / "dpo" / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text('{"resume": 0}')
    (folder / "node-0.log").write_text("".join(f"{line}\n" for line in LINES))
    return folder / "node-0.log"


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each part that comes from a pod."""
    found: list[int] = []
    parse = files._parse

    def noted(output: bytes) -> object:
        found.append(len(output))
        return parse(output)

    monkeypatch.setattr(files, "_parse", noted)
    monkeypatch.setattr(files, "EXEC_BYTES", 3000)
    return found


def printed(capsys: Captured, source: Source, **chosen: object) -> tuple[list[str], str]:
    selection = Selection(**{"attempt": 1, **chosen})  # type: ignore[arg-type]
    assert command.run(Target(run="dpo", source=source), selection) == 0
    out, err = capsys.readouterr()
    return [line.removeprefix("rank 0 | ") for line in out.splitlines()], err


@given(TEXTS, st.integers(0, 12))
def test_the_last_lines_are_those_of_the_file(text: bytes, count: int) -> None:
    begin = part.tail_offset(io.BytesIO(text), len(text), count)
    assert text[begin:] == b"".join(deque(io.BytesIO(text), count))


@pytest.mark.parametrize("grep", [None, "ERROR", r"^loss \d*7$", "nothing"])
@pytest.mark.parametrize("tail", [None, 0, 120])
@pytest.mark.usefixtures("api")
def test_a_log_by_exec_comes_in_parts_and_is_whole(
    grep: str | None, tail: int | None, log: Path, sizes: list[int], capsys: Captured
) -> None:
    lines, _ = printed(capsys, Source.EXEC, grep=grep, tail=tail)
    last = LINES if tail is None else LINES[len(LINES) - tail :]
    assert lines == [line for line in last if grep is None or re.search(grep, line)]
    assert max(sizes) < 3200
    assert grep or tail is not None or len(sizes) == -(-log.stat().st_size // 3000)
    assert grep != "nothing" or sum(sizes) < 100, "lines are chosen where the file is"


def test_a_search_that_takes_long_continues_in_the_next_command(log: Path) -> None:
    request = {"path": str(log), "offset": 0, "tail": None, "pattern": "loss", "limit": 10}
    request["last"] = False
    about, found = part.read({**request, "seconds": 0.0})
    assert (about["next"], found) == (0, b"")
    about, found = part.read({**request, "seconds": 9.0})
    assert found == b"loss 1\nloss 2\n" and about["next"] == len(b"ERROR 0\n") + len(found)


def test_a_reader_pod_prints_the_end_and_says_what_it_leaves_out(
    api: Api, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, Source.POD) == (LINES, "from the files of attempt 1\n")
    monkeypatch.setattr(files, "POD_BYTES", 90)
    lines, said = printed(capsys, Source.POD)
    assert lines == LINES[-10:]
    left_out = sum(len(line) + 1 for line in LINES[:-10])
    assert f"node-0.log of attempt 1: the first {left_out / 1000:.1f} KB are left out" in said
    lines, said = printed(capsys, Source.POD, grep="ERROR")
    assert lines == [line for line in LINES if "ERROR" in line][-len(lines) :] and len(lines) == 9
    assert "a reader pod prints 90 B; --grep chooses lines" in said
    monkeypatch.setattr(files, "POD_BYTES", 6 * 2**20)
    monkeypatch.setitem(files.PART_SECONDS, "pod", 0.0)
    lines, said = printed(capsys, Source.POD, grep="ERROR")
    assert lines == [] and "0 s did not suffice to search" in said


def test_a_log_that_the_kubelet_rotated_is_named(
    api: Api, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"loss": 1}) + "\nrest of a log\n"
    monkeypatch.setattr(files, "read_by_pod", lambda *words: ("reader", text))
    with pytest.raises(Problem, match="rotated"):
        command.run(Target(run="dpo", source=Source.POD), Selection(attempt=1))
