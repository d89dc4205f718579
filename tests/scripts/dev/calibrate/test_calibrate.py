"""The calibration: whole rows, the best constants, and goals that are reported if missed."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from launchers.plan.memory import FIT, HOST_ERROR_SHARE, PROCESS
from launchers.plan.step_time import PACE
from launchers.units import GIB
from scripts.dev.calibrate import host, memory, speed
from scripts.dev.calibrate.__main__ import main
from scripts.dev.calibrate.fit import Bounds, Vector, left_out, solve
from scripts.dev.calibrate.rows import Row, load
from scripts.problem import Problem

ROWS = load()


@pytest.fixture(autouse=True, scope="module")
def _fitted_once() -> Iterator[None]:
    """Leave out the same rows once, which takes seconds."""

    def once(act: Callable[[Sequence[Row]], list[float]]) -> Callable[[Sequence[Row]], list[float]]:
        kept: dict[tuple[str, ...], list[float]] = {}

        def errors(rows: Sequence[Row]) -> list[float]:
            names = tuple(row.name for row in rows)
            if names not in kept:
                kept[names] = act(rows)
            return kept[names]

        return errors

    with pytest.MonkeyPatch.context() as patch:
        for module in (memory, speed):
            patch.setattr(module, "cross_errors", once(module.cross_errors))
        yield


def test_there_are_enough_rows() -> None:
    assert len(memory.fitted(ROWS)) >= 20
    assert any(row.outOfMemory for row in ROWS) and any(row.hostGibOver for row in ROWS)
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len(memory.BOUNDS) < len(memory.fitted(ROWS)) / 5


def test_the_constants_are_those_that_fit_best() -> None:
    fit, pace = memory.refit(memory.fitted(ROWS)), speed.refit(ROWS)
    for name in memory.BOUNDS:
        assert getattr(FIT, name) == pytest.approx(getattr(fit, name), rel=0.02), name
    for name in ("passing", *speed.BOUNDS):
        assert getattr(PACE, name) == pytest.approx(getattr(pace, name), rel=0.02), name
    assert pytest.approx(host.refit(ROWS), rel=0.02) == PROCESS / GIB
    assert all(isinstance(v, float) for v in dataclasses.asdict(FIT).values())


def test_errors_of_memory_stay_small_on_rows_that_were_left_out() -> None:
    errors = memory.cross_errors(memory.fitted(ROWS))
    assert statistics.mean(map(abs, errors)) < 0.03
    unseen = memory.unseen(memory.fitted(ROWS))  # by published rows alone
    assert len(unseen) >= 25 and statistics.mean(map(abs, unseen)) < 0.05


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_memory_is_predicted_as_it_was_measured_and_a_run_is_refused_if_it_did_not_fit(
    row: Row,
) -> None:
    if row.ours and row.fit and row.gib:
        assert abs(memory.error(row)) < 0.06
    if row.outOfMemory or row.gib is not None:
        assert (row.memory().total > row.gpu.memory_gib) is row.outOfMemory
    if row.hostGibOver:
        assert row.node_gib() > row.hostGibOver, "the host killed it"


def test_host_memory_has_the_readings_of_both_rehearsals() -> None:
    found = [(row.name, reading.when) for row, reading in host.readings(ROWS)]
    names = ("rehearse-2xh200", "rehearse-pipeline-2xh100")
    assert found == [(name, when) for name in names for when in ("save", "peak")]


@pytest.mark.parametrize(
    "read", host.readings(ROWS), ids=lambda read: f"{read[0].name}-{read[1].when}"
)
def test_host_memory_is_predicted_within_its_error(read: host.Read) -> None:
    assert abs(host.error(read)) <= HOST_ERROR_SHARE


KNOWN = "name: x, source: y, card: h200, gpusPerNode: 1, args: {}"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (f"{KNOWN}, host: [{{when: start, gib: 1}}]", "x: when='start'; use save or peak"),
        (f"{KNOWN}, fit: false", "x: set note"),
        ("name: x, gb: 3", r"a\.yaml: x: .*gb"),
    ],
    ids=["a reading says when", "a row that is left out says why", "an unknown field"],
)
def test_a_row_that_is_wrong_is_refused(tmp_path: Path, row: str, why: str) -> None:
    (tmp_path / "a.yaml").write_text(f"rows: [{{{row}}}]")
    with pytest.raises(Problem, match=why):
        load(tmp_path)


def test_least_squares_finds_a_line() -> None:
    def errors(constants: Sequence[float]) -> Vector:
        return [constants[0] + constants[1] * x - (3 + 2 * x) for x in range(5)]

    found = solve(errors, [Bounds(low=0, start=1, high=9), Bounds(low=0, start=1, high=9)])
    assert found == pytest.approx([3, 2], rel=1e-4)
    bound = solve(errors, [Bounds(low=0, start=1, high=2), Bounds(low=0, start=1, high=9)])
    assert bound[0] <= 2


def test_each_row_is_left_out_with_its_group() -> None:
    rows = [dataclasses.replace(ROWS[0], name=n, visit=v) for n, v in ("0a", "1a", "2b")]

    def total(kept: Sequence[Row]) -> int:
        return sum(int(row.name) for row in kept)

    seen = left_out(rows, total, lambda row, fit: float(fit * 10 + int(row.name)))
    assert seen == [20.0, 21.0, 12.0]  # fitted on row 2 alone, and on rows 0 and 1


def test_rows_of_todays_program_are_met_by_constants_of_other_files() -> None:
    rows, errors = speed.fitted(ROWS), speed.cross_errors(ROWS)
    spread = math.sqrt(statistics.mean(error**2 for error in errors))
    assert spread == pytest.approx(PACE.spread, abs=0.01)
    crossed = zip(rows, errors, strict=True)
    off = {row.name: error for row, error in crossed if not row.training.host_waits}
    assert len(off) >= 11
    assert math.sqrt(statistics.mean(e**2 for e in off.values())) < math.log(1.06), off
    assert max(map(abs, off.values())) == pytest.approx(PACE.near, abs=0.01), off


@pytest.mark.parametrize("row", speed.traced(ROWS), ids=lambda row: row.name)
def test_kernels_of_a_traced_step_are_predicted(row: Row) -> None:
    assert abs(speed.kernels_error(row)) < 0.05


def test_facts_of_a_file_are_those_of_each_row(tmp_path: Path) -> None:
    row = f"{{{KNOWN}, facts: {{longest: 8}}, host: [{{when: save, gib: 1}}]}}"
    (tmp_path / "a.yaml").write_text(f"facts: {{host_waits: true}}\nrows: [{row}]")
    (found,) = load(tmp_path)
    assert (found.training.host_waits, found.training.longest, found.visit) == (True, 8, "a")
    assert found.host[0].own == 1


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in ROWS)
    assert "4 of 4 runs out of memory refused" in printed
