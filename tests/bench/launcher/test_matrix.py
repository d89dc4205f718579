"""Order of the injected faults, and what is read from the files of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.metrics import rows as metrics
from launchers.metrics.rows import Row
from tests.bench.launcher import matrix
from tests.bench.launcher.run import FLOORS, Run
from tests.bench.visit import command, lines
from tests.faults import catalogue
from tests.faults.catalogue import Fault

ALL = catalogue.load("gpu")
NO_RUN = Run(name="r", manifest=Path("m"), log=Path("l"), workspace=Path("/nonexistent"))


def fault(name: str) -> Fault:
    return next(each for each in ALL if each.name == name)


def row(attempt: int, step: int, time: float) -> Row:
    """Return a row whose loss depends on its step alone."""
    values = {"loss": 1.0 / step}
    return Row(step=step, total=20, attempt=attempt, time=time, seconds=1.0, values=values)


def left(tmp_path: Path, *, rows: list[Row], ends: dict[str, dict[str, Any]]) -> Run:
    """Write rows and the termination records of attempt 1."""
    run = Run(name="r", manifest=tmp_path / "m", log=tmp_path / "l", workspace=tmp_path)
    for number in {each.attempt for each in rows}:
        (run.home / "attempts" / str(number)).mkdir(parents=True)
    for rank, record in ends.items():
        (run.home / "attempts" / "1" / f"termination-{rank}.json").write_text(json.dumps(record))
    (run.home / "metrics.jsonl").write_text("".join(metrics.line(each) + "\n" for each in rows))
    return run


@pytest.mark.parametrize("seed", range(5))
def test_a_new_checkpoint_lies_between_two_faults(seed: int) -> None:
    planned = matrix.schedule(ALL, seed)
    assert len(planned) == len(ALL)
    at = [each.step - (each.fault.inject["at"] == "save") for each in planned]
    windows = [step // matrix.SAVES for step in at]
    assert windows == list(range(len(ALL)))
    assert planned[0].fault.name == "killed-in-the-first-save"
    assert planned[-1].fault.expect.outcome == "failed"
    assert {each.rank for each in planned} <= {0, 1}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", ["step", "save", None])
def test_a_new_step_follows_the_last_fault(seed: int, at: str | None) -> None:
    faults = [each for each in ALL if each.inject["at"] == at or at is None]
    last = max(each.step for each in matrix.schedule(faults, seed))
    assert last < matrix.steps_of(faults) <= last + 3 * matrix.SAVES


def test_another_seed_has_another_order() -> None:
    orders = {tuple(each.fault.name for each in matrix.schedule(ALL, seed)) for seed in range(3)}
    assert len(orders) == 3


def test_with_one_gpu_every_fault_is_on_rank_0() -> None:
    assert {each.rank for each in matrix.schedule(ALL, 1, ranks=1)} == {0}
    options = matrix.arguments(["t", "r", "--profile", "values/demo-megatron.yaml", "--gpus", "1"])
    made = matrix.launch_of(options)
    assert (made.nodes, made.gpus_per_node) == (1, 1)
    chosen = {each.name for each in matrix.chosen(options)}
    assert {each.name for each in ALL} - chosen == {"collective-skipped"}


def test_without_a_fault_in_the_first_save_the_first_window_is_left_out() -> None:
    (planned,) = matrix.schedule([fault("rank-killed")], 0)
    assert matrix.SAVES < planned.step <= 2 * matrix.SAVES


def test_training_stands_still_before_a_fault_for_as_long_as_wanted() -> None:
    (planned,) = matrix.schedule([fault("rank-killed")], 0, settle=30.0)
    assert planned.document()["settle"] == 30.0
    words = lines("2gpu")["restart-standby"]
    options = matrix.arguments(command("2gpu", "restart-standby", "TOKENIZER", "RESULTS", words))
    made = matrix.launch_of(options)
    restarts = made.profile.values()["restarts"]
    assert restarts["standby"] is True
    assert restarts["hang"]["floors"]["step"] == FLOORS["step"] + 30


def test_a_floor_of_the_profile_takes_precedence() -> None:
    words = lines("2gpu")["restart-5-layers"]
    options = matrix.arguments(command("2gpu", "restart-5-layers", "TOKENIZER", "RESULTS", words))
    made = matrix.launch_of(options)
    floors = made.profile.values()["restarts"]["hang"]["floors"]
    assert (floors["save"], floors["step"]) == (120, FLOORS["step"] + 30)


def test_a_run_that_resumed_is_read(tmp_path: Path) -> None:
    rows = [row(1, 1, 1.0), row(1, 2, 2.0), row(2, 2, 20.0), row(2, 3, 21.0)]
    peer = {"id": "ended-for-peer", "code": 1, "class": "unknown"}
    cause = {"id": "hang", "code": 81, "class": "hang", "cause": "rank 1 is stopped"}
    run = left(tmp_path, rows=rows, ends={"0": peer, "1": cause})
    note = {"time": 3.0, "attempt": 1, "step": 3, "rank": 1}
    seen = matrix.observed(run, fault("rank-stopped"), {"rank-stopped": note}, "ended")
    assert (seen["outcome"], seen["code"], seen["new_step_s"]) == ("resumed", 81, 18.0)
    assert (seen["repeated"]["steps"], seen["repeated"]["first_apart"]) == ([2], 0.0)
    assert list(matrix.complaints(fault("rank-stopped"), seen)) == []


def test_a_fault_that_only_delays_is_not_blamed_for_the_next_one(tmp_path: Path) -> None:
    rows = [row(1, 1, 1.0), row(1, 2, 4.0), row(1, 3, 5.0), row(2, 4, 30.0)]
    run = left(tmp_path, rows=rows, ends={"0": {"id": "signal", "code": 1, "class": "unknown"}})
    notes = {
        "rank-slow": {"time": 3.0, "attempt": 1, "step": 2},
        "rank-killed": {"time": 6.0, "attempt": 1, "step": 4},
    }
    seen = {name: matrix.observed(run, fault(name), notes, "ended") for name in notes}
    outcomes = {name: each["outcome"] for name, each in seen.items()}
    assert outcomes == {"rank-slow": "unaffected", "rank-killed": "resumed"}
    assert seen["rank-slow"]["code"] is None


@pytest.mark.parametrize(
    ("rows", "later", "end", "ended", "found"),
    [
        ([row(1, 1, 1.0), row(1, 2, 4.0)], 0, "ended", False, "unaffected"),
        ([row(1, 1, 1.0)], 0, "ended", True, "failed"),
        ([row(1, 1, 1.0)], 0, "endless", False, "endless"),
        ([row(1, 1, 1.0)], 0, "cut", False, "cut"),
        ([row(1, 1, 1.0), row(2, 1, 9.0)], 2, "endless", True, "endless"),
        ([row(1, 1, 1.0), row(2, 2, 9.0)], 2, "ended", True, "resumed"),
        # a rank that hangs completes no step, nor does its attempt end
        ([row(1, 1, 1.0)], 0, "ended", False, "failed"),
    ],
)
def test_the_outcome(rows: list[Row], later: int, end: str, ended: bool, found: str) -> None:
    note = {"time": 3.0, "attempt": 1, "step": 2}
    assert matrix.outcome(rows, note, later, end, ended=ended) == found


def test_what_differs_from_the_catalogue_is_named() -> None:
    memory = fault("gpu-out-of-memory")
    seen = {"outcome": "resumed", "code": 1, "class": "gpu-memory", "orphans": 0}
    assert list(matrix.complaints(memory, seen)) == []
    wrong = {"outcome": "endless", "code": 78, "class": "unknown", "orphans": 2}
    wrong |= {"repeated": {"first_apart": 1e-3}}
    assert len(list(matrix.complaints(memory, wrong))) == 5


def test_faults_that_were_not_reached_get_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = ["ended", "endless", "ended"]
    runs: list[list[str]] = []

    def inject(run: Any, planned: list[matrix.Planned], *_: Any) -> tuple[str, int, int]:
        runs.append([each.fault.name for each in planned])
        return ends[len(runs) - 1], 1, 0

    def injected() -> dict[str, dict[str, Any]]:
        return {runs[-1][0]: {}} if ends[len(runs) - 1] == "ended" else {}

    monkeypatch.setattr(matrix, "inject", inject)
    monkeypatch.setattr(matrix, "injected", injected)
    monkeypatch.setattr(matrix, "observed", lambda run, each, *_: {"name": each.name})
    monkeypatch.setattr(matrix, "complaints", lambda *_: [])
    names = {"rank-killed", "rank-segfault", "torchrun-killed"}
    chosen = [fault(name) for name in names]
    found = list(matrix.matrix(NO_RUN, chosen, 0, 0.0))
    first, missed = runs[0][0], runs[1][0]
    assert [set(each) for each in runs] == [names, names - {first}, names - {first, missed}]
    problems = {each["name"]: len(each["problems"]) for each in found}
    assert problems == {name: int(name == missed) for name in names}


def test_a_run_that_its_limit_cuts_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "inject", lambda *_: ("cut", -9, 0))
    monkeypatch.setattr(matrix, "injected", lambda: {"rank-killed": {}})
    monkeypatch.setattr(matrix, "observed", lambda run, each, *_: {"name": each.name})
    monkeypatch.setattr(matrix, "complaints", lambda *_: [])
    chosen = [fault(name) for name in ("rank-killed", "rank-segfault", "torchrun-killed")]
    found = list(matrix.matrix(NO_RUN, chosen, 0, 0.0))
    problems = {each["name"]: len(each["problems"]) for each in found}
    assert problems == {"rank-killed": 0, "rank-segfault": 1, "torchrun-killed": 1}


def test_the_line_of_the_visit_can_be_read() -> None:
    words = lines("2gpu")["matrix"]
    options = matrix.arguments(command("2gpu", "matrix", "TOKENIZER", "RESULTS", words))
    made = matrix.launch_of(options)
    assert made.args["train_iters"] == matrix.steps_of(ALL)
