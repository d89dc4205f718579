import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.metrics.rows import Row, line
from launchers.stages import attempt_record
from launchers.stages.attempt_record import AttemptRecord, End
from launchers.stages.no_progress import is_last, judge
from tests.launchers.stages.checkpoints import sealed

KILLED = End(rank=1, code=1, failure_class="host-memory", id="killed-for-memory", cause="killed")
GPU_MEMORY = End(rank=0, code=1, failure_class="gpu-memory", id="gpu-memory", cause="CUDA")
PREEMPTED = End(rank=0, code=75, failure_class="preemption", id="preempted", cause="SIGTERM")
TERMINATED = End(rank=0, code=143, failure_class="preemption", id="stopped", cause="SIGTERM")
CASCADE = End(rank=0, code=1, failure_class="unknown", id="peer-ended", cause="rank 1 ended")
USER_ERROR = End(rank=0, code=78, failure_class="user", id="x", cause="bad flag")


def failed(
    *ends: End, resumed: int | None = 10, saved: int = 10, logged: int = 10
) -> AttemptRecord:
    return AttemptRecord(number=0, resumed=resumed, saved=saved, logged=logged, ends=ends)


STUCK, RISEN = failed(KILLED), failed(KILLED, saved=20)


def numbered(attempts: Iterable[AttemptRecord]) -> list[AttemptRecord]:
    return [replace(each, number=n) for n, each in enumerate(attempts, start=1)]


def decide(*attempts: AttemptRecord, save_every: int | None = 100) -> LaunchError | None:
    return judge(numbered(attempts), save_every)


def test_three_attempts_without_a_higher_step_end_the_run_with_the_class_that_repeated() -> None:
    other = failed(replace(KILLED, failure_class="hang", code=81))
    assert decide(STUCK, STUCK) is None
    error = decide(STUCK, other, STUCK)
    assert error is not None and (error.code, error.id) == (Exit.NO_PROGRESS, "no-progress")
    assert error.failure_class == FailureClass.HOST_MEMORY
    assert "host-memory (2 of 3)" in error.cause


def test_the_attempt_after_two_without_progress_is_the_last_one() -> None:
    for attempts in ([STUCK, STUCK], [STUCK, failed(PREEMPTED), STUCK]):
        assert is_last(numbered(attempts), 100)
    for attempts in ([STUCK], [STUCK, RISEN], [STUCK, RISEN, STUCK]):
        assert not is_last(numbered(attempts), 100)


@pytest.mark.parametrize("end", [PREEMPTED, TERMINATED])
def test_preempted_attempts_neither_count_nor_break_the_row(end: End) -> None:
    preempted = failed(end)
    assert decide(*[preempted] * 5) is None
    assert decide(STUCK, preempted, STUCK, preempted) is None
    assert decide(STUCK, preempted, STUCK, preempted, STUCK) is not None


def test_only_attempts_that_trained_without_a_higher_checkpoint_count() -> None:
    assert decide(STUCK, STUCK, RISEN, STUCK, STUCK) is None
    assert decide(*[failed(KILLED, resumed=None)] * 4) is None
    due = [failed(KILLED, resumed=0, saved=0, logged=n) for n in (10, 11, 12)]
    assert decide(*due, save_every=10) is not None  # it was due, and is not complete


def test_until_a_checkpoint_is_due_a_higher_logged_step_counts() -> None:
    rising = [failed(KILLED, resumed=0, saved=0, logged=n) for n in (3, 5, 7, 9)]
    assert decide(*rising, save_every=100) is None
    assert decide(*rising, save_every=None) is None
    level = [replace(a, logged=3) for a in rising]
    assert decide(*level[:3], save_every=100) is None  # the first one reached step 3
    assert decide(*level, save_every=100) is not None


def test_gpu_memory_at_the_same_step_twice_in_a_row_is_a_user_error() -> None:
    out = failed(GPU_MEMORY, resumed=10, saved=30, logged=33)
    again = failed(GPU_MEMORY, resumed=30, saved=30, logged=33)
    assert decide(out) is None
    error = decide(out, failed(PREEMPTED, resumed=30, saved=30, logged=31), again)
    assert error and (error.code, error.id) == (Exit.OUT_OF_MEMORY, "gpu-memory-again")
    assert decide(out, replace(again, logged=34)) is None
    assert decide(out, replace(again, ends=(KILLED,))) is None


def test_after_a_user_error_a_person_has_started_the_run_again() -> None:
    refused = failed(replace(USER_ERROR, code=93), resumed=None)
    assert decide(STUCK, STUCK, STUCK, refused) is None
    assert decide(STUCK, STUCK, STUCK, refused, STUCK, STUCK) is None
    assert decide(STUCK, STUCK, STUCK, refused, STUCK, STUCK, STUCK) is not None


def test_an_attempt_whose_pods_were_killed_counts_and_says_so() -> None:
    error = decide(*[failed()] * 3)
    assert error is not None and error.failure_class == FailureClass.UNKNOWN
    assert "its pod was killed" in error.cause


def test_the_cause_comes_before_its_cascade_and_before_the_sigterm_that_followed() -> None:
    assert failed(CASCADE, KILLED).root == KILLED
    assert failed(TERMINATED, KILLED).root == KILLED
    assert failed(CASCADE, TERMINATED).root == TERMINATED
    assert failed(CASCADE, USER_ERROR, KILLED).root == USER_ERROR


def test_the_history_is_read_from_the_files_of_the_attempts(work: Workspace) -> None:
    attempt_record.begin(work.attempts / "1", None)
    rows = [
        Row(step=step, total=99, attempt=attempt, time=1.0, seconds=1.0)
        for attempt, step in ((1, 1), (1, 12), (2, 11), (2, 13))
    ]
    work.metrics.write_text("".join(f"{line(row)}\n" for row in rows) + '{"torn')
    resume = sealed(work, 10)
    attempt_record.begin(work.attempts / "2", resume)
    error = LaunchError(Exit.PEER, "killed", "r", id="i", failure_class=FailureClass.HOST_MEMORY)
    attempt_record.end(work, work.attempts / "2", 1, error)
    attempt_record.end(work, work.attempts / "3", 0, LaunchError(Exit.DATA, "c", "r", id="j"))
    (work.attempts / "notes").mkdir()
    sealed(work, 13)
    end = replace(KILLED, id="i", remedy="r", stage="train")
    refused = End(rank=0, code=65, failure_class="data", id="j", cause="c", remedy="r")
    refused = replace(refused, stage="train")
    assert attempt_record.history(work) == [
        AttemptRecord(number=1, resumed=0, saved=10, logged=12),
        AttemptRecord(number=2, resumed=10, saved=13, logged=13, ends=(end,)),
        AttemptRecord(number=3, resumed=None, saved=13, logged=0, ends=(refused,)),
    ]


def test_torn_records_are_no_records(work: Workspace) -> None:
    folder = work.attempts / "1"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text('{"res')
    (folder / "termination-0.json").write_text("[]")
    (folder / "termination-1.json").write_text('{"code": "x"}')
    [found] = attempt_record.history(work)
    assert (found.resumed, found.ends) == (None, ())


def test_each_end_is_recorded_with_its_class(work: Workspace) -> None:
    folder = work.attempts / "1"
    error = LaunchError(Exit.PEER, "killed", "r", id="i", failure_class=FailureClass.HOST_MEMORY)
    with pytest.raises(LaunchError), attempt_record.recording(work, folder, 1):
        raise error
    with pytest.raises(RuntimeError), attempt_record.recording(work, folder, 0):
        raise RuntimeError("x")
    with attempt_record.recording(work, folder, 2):
        pass
    names = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert {name: (end["code"], end["class"]) for name, end in names.items()} == {
        "termination-0.json": (1, "unknown"),
        "termination-1.json": (1, "host-memory"),
    }
