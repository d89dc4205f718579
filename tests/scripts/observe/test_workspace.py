"""The reader of runs/<release>/: torn and missing files, a million rows, complete checkpoints."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.state import contents, document, spans
from launchers.storage import checkpoint
from scripts.helm import ROOT
from scripts.observe.workspace import RunFiles, parse_run, read_run
from scripts.problem import Problem
from tests.scripts.observe.planted import rewrite

CHECKPOINT = {"step": 8, "complete": True, "bytes": 9, "saved_at": None}


def row(step: int, attempt: int, when: float) -> str:
    values = {"loss": 0.6, "rewards/margins": 0.1}
    made = Row(step=step, total=900, attempt=attempt, time=when, seconds=2.0, values=values)
    return rows.line(made) + "\n"


def evaluation(step: int, attempt: int) -> str:
    fields = {"step": step, "total": 900, "attempt": attempt, "time": 1.0, "eval_seconds": 3.0}
    return json.dumps({**fields, "eval_loss": 0.5}) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run: attempt 1 did steps 1-10, attempt 3 resumed from 8; attempt 2 never trained."""
    made = tmp_path / "runs" / "dpo"
    for number, resume in ((1, 0), (2, None), (3, 8)):
        folder = made / "attempts" / str(number)
        folder.mkdir(parents=True)
        if resume is not None:
            (folder / "start.json").write_text(json.dumps({"resume": resume}))
    (made / "attempts" / "1" / "termination-1.json").write_text(
        '{"code": 81, "class": "hang", "stage": "train", "rank": 1, "step": 10, "cause": "c", '
        '"remedy": "r", "id": "hang"}'
    )
    first = [row(step, 1, 100.0 + 2 * step) for step in range(1, 11)]
    third = [row(step, 3, 200.0 + 2 * step) for step in range(9, 21)]
    lines = [evaluation(0, 1), *first, '{"step": 11, "att\n', *third, evaluation(20, 3)]
    (made / "metrics.jsonl").write_text("".join(lines))
    progress = {"state": "running", "attempt": 3, "training": {"step": 20}}
    (made / "progress.json").write_text(json.dumps(progress))
    return made


def read(home: Path) -> RunFiles:
    return read_run(home.parent.parent, home.name)


def test_attempts_have_their_rows_and_losses_and_the_newest_row_is_of_the_end(home: Path) -> None:
    found = read(home)
    first, second, third = found.attempts
    assert first.first and first.last and third.first and third.last
    assert (first.first.step, first.last.step) == (1, 10)
    assert (second.resumed, second.last, second.lost_steps) == (None, None, 0)
    assert (third.resumed, third.first.step, third.last.step) == (8, 9, 20)
    losses = [(each.lost_steps, each.lost_seconds) for each in (first, third)]
    assert losses == [(2, 4.0), (0, 0.0)]
    assert first.root and (first.root.id, first.root.step, first.root.remedy) == ("hang", 10, "r")
    assert found.torn == () and found.row and (found.row.step, found.row.attempt) == (20, 3)
    assert [each.step for each in found.evaluations] == [0, 20]
    assert [each.step for each in found.recent] == list(range(1, 21))


def test_torn_files_are_named_and_the_rest_is_read(home: Path) -> None:
    with (home / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 21, "total": 9')
    (home / "progress.json").write_text('{"state": "run')
    (home / "attempts" / "1" / "termination-1.json").write_text('{"code"')
    found = read(home)
    assert {*found.torn} == {"metrics.jsonl", "progress.json", "termination-1.json"}
    assert found.progress == {}
    assert found.row and found.row.step == 20 and found.attempts[0].ends == ()


def test_nothing_is_there_before_the_first_start(tmp_path: Path) -> None:
    found = read_run(tmp_path, "dpo")
    assert (found.exists, found.row, found.attempts, found.newest) == (False, None, (), None)
    with pytest.raises(Problem, match="is not a folder"):
        read_run(tmp_path / "nowhere", "dpo")


def test_a_folder_that_may_not_be_read_is_a_problem_not_an_end(home: Path) -> None:
    (home / "plan.json").mkdir()
    found = read(home)
    assert found.row is not None
    assert len(found.problems) == 1 and "plan.json" in found.problems[0]


def make_checkpoint(home: Path, step: int, *, seal: bool = True) -> Path:
    folder = home / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"x" * step)
    if seal:
        checkpoint.seal(folder, step)
    return folder


def test_a_checkpoint_is_complete_where_the_launcher_says_so(home: Path) -> None:
    make_checkpoint(home, 9)
    make_checkpoint(home, 10)
    (make_checkpoint(home, 12) / "weights").write_bytes(b"cut")
    make_checkpoint(home, 14, seal=False)
    (make_checkpoint(home, 16) / "weights").unlink()
    make_checkpoint(home, 18).rename(home / "checkpoints" / "checkpoint-19")
    checkpoint.condemn(make_checkpoint(home, 20), "a file reads as zeros")
    for step, moved, recipe in ((11, "dpo", "a"), (13, "former", "a"), (22, "other", "a")):
        plant_of(home, step, run=moved, recipe=recipe)
    plant_of(home, 24, run="dpo", recipe="b")
    (home / "attempts" / "1" / "start.json").write_text('{"resume": 0, "run": "former"}')
    found = read(home)
    judged = {each.step for each in found.checkpoints if each.complete}
    right = {9, 10, 11, 13}
    assert judged == {each.step for each in checkpoint.complete(home / "checkpoints")} == right
    assert found.newest and (found.newest.step, found.newest.bytes) == (13, 13)
    root = home.parent.parent
    (listed,) = contents.answer("list", root, [])["runs"]
    assert {each["step"] for each in listed["checkpoints"] if each["complete"]} == right
    assert listed["newest"] == 13


def plant_of(home: Path, step: int, *, run: str, recipe: str) -> None:
    """Make a checkpoint of a run with another name or recipe."""
    (home / "inputs.json").write_text(json.dumps({"recipe": "a"}))
    manifest = make_checkpoint(home, step) / "COMPLETE.json"
    rewrite(manifest, run=run, inputs={"recipe": recipe})


def test_bisection_finds_what_a_scan_finds(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(40):
        lines, offset, places = [], 0, []
        for attempt in sorted(chance.sample(range(1, 6), 3)):
            for step in range(chance.randint(0, 3), chance.randint(3, 9)):
                line = row(step, attempt, 1.0)
                places.append((attempt, step, offset))
                lines.append(line)
                offset += len(line)
                if chance.random() < 0.2:
                    lines.append("torn\n")
                    offset += 5
        path = tmp_path / "metrics.jsonl"
        path.write_text("".join(lines))
        for wanted in [(chance.randint(0, 6), chance.randint(-1, 9)) for _ in range(10)]:
            with path.open("rb") as handle:
                at = spans.offset_of(handle, offset, wanted)
                _, found = spans.next_entry(handle, at, offset)
            scanned = next(((a, s) for a, s, _ in places if (a, s) >= wanted), None)
            assert (found and (found.attempt, found.step)) == scanned


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def test_of_a_million_rows_few_are_read(home: Path) -> None:
    """Bytes are counted, and not seconds: the machine may be busy."""
    with (home / "metrics.jsonl").open("w") as handle:
        for base in range(0, 1_000_000, 1000):
            attempt = 1 if base < 500_000 else 3
            handle.writelines(
                f'{{"step":{step},"total":1000000,"attempt":{attempt},"time":{step}.0,'
                f'"seconds":1.0,"loss":0.6,"rewards/margins":0.1,"rewards/accuracies":0.5}}\n'
                for step in range(base, base + 1000)
            )
    (home / "attempts" / "3" / "start.json").write_text('{"resume": 499990}')
    before = bytes_read()
    found = read(home)
    took = bytes_read() - before
    assert found.row and found.row.step == 999_999
    assert [each.lost_steps for each in found.attempts] == [9, 0, 0]
    size = (home / "metrics.jsonl").stat().st_size
    assert size > 100e6 and took < 5e6, took


def test_the_launcher_prints_the_document(home: Path) -> None:
    """As in a pod, with the run's own folder, and for a mounted one."""
    env = {**os.environ, "DPO_WORKSPACE": str(home.parent.parent), "DPO_RUN": "dpo"}
    words = [sys.executable, "-m", "launchers", "state", "--json", "--rows"]
    for more in (["300"], ["3", str(home)]):
        done = subprocess.run(
            [*words, *more], capture_output=True, text=True, check=True, cwd=ROOT, env=env
        )
        alone, here = parse_run(json.loads(done.stdout)), read(home)
        assert (alone.attempts, alone.row, alone.known) == (here.attempts, here.row, here.known)
        assert alone.recent == here.recent[-int(more[0]) :]


def test_a_document_of_another_schema_is_refused(home: Path) -> None:
    found = document.read(Workspace.of(home))
    parse_run({**found, "later": 1, "checkpoints": [{**CHECKPOINT, "later": 1}]})
    with pytest.raises(Problem, match="not of schema 1"):
        parse_run({**found, "schema": 2})
