"""The verdict of each figure, at and beyond its limit."""

from dataclasses import replace
from typing import Any

import pytest

from launchers.rehearsal import result
from launchers.rehearsal.figures import Context, Figure, judge
from launchers.rehearsal.measured import Host, Loaded, Measured
from launchers.rehearsal.rehearsal import Rehearsal
from launchers.units import GIB

MEMORY = {"total_gib": 70.0, "reserved_gib": 65.0, "card_gib": 80.0, "host_gib_per_node": 100.0}
PLAN = {
    "memory": MEMORY,
    "speed": {"tokens_per_second_per_gpu": 5000},
    "footprint": {"save_seconds": 60, "hold_seconds": 60},
    "length": {"steps": 1000},
}
CONTEXT = Context(rehearsal=Rehearsal(), plan=PLAN, grace_seconds=300.0, save_every=500, kept=2)
GOOD = Measured(
    killed_rank=8,
    resumed_from=2,
    restart_seconds=40.0,
    gpu_gib=70.0,
    gpu_limit_gib=80.0,
    hosts=(Host(rank=0, peak=50 * GIB, peak_at_save=40 * GIB, limit=100 * GIB),),
    step_seconds=20.0,
    tokens_per_second_per_gpu=5000.0,
    save_seconds=60.0,
    load_seconds=30.0,
    checkpoint_bytes=100 * 10**9,
    free_bytes=10**12,
    evaluation_seconds=30.0,
    export=Loaded(tensors=9, bytes=10, seconds=1.0),
)


def figure(id: str, measured: Measured, context: Context = CONTEXT) -> Figure:
    return next(each for each in judge(measured, context)[0] if each.id == id)


def test_a_run_that_fits_is_ok_in_every_figure() -> None:
    figures, unknown = judge(GOOD, CONTEXT)
    assert {each.verdict for each in figures} == {"ok"}
    assert [each.remedy for each in figures] == [""] * len(figures)
    assert not unknown
    assert result.verdict(figures) == "ok"


@pytest.mark.parametrize(
    ("id", "change", "verdict"),
    [
        ("resume", {"killed_rank": None}, "fail"),
        ("resume", {"resumed_from": 0}, "fail"),
        ("resume", {"resumed_from": None, "restart_seconds": None}, "fail"),
        ("gpu-memory", {"gpu_gib": 76.0}, "ok"),
        ("gpu-memory", {"gpu_gib": 76.1}, "warn"),
        ("speed", {"tokens_per_second_per_gpu": 4000.0}, "ok"),
        ("speed", {"tokens_per_second_per_gpu": 3999.0}, "warn"),
        ("save", {"save_seconds": 204.0}, "ok"),
        ("save", {"save_seconds": 400.0, "hold_seconds": 204.0}, "ok"),
        ("save", {"save_seconds": 400.0, "hold_seconds": 205.0}, "warn"),
        ("save", {"save_seconds": 205.0}, "warn"),
        ("grace", {"save_seconds": 270.0}, "ok"),
        ("grace", {"save_seconds": 271.0}, "warn"),
        ("disk", {"free_bytes": 300 * 10**9}, "ok"),
        ("disk", {"free_bytes": 300 * 10**9 - 1}, "fail"),
        ("export", {"export": Loaded(problems=("1 tensors hold NaN or Inf: a",))}, "fail"),
    ],
)
def test_a_figure_changes_its_verdict_at_its_limit(
    id: str, change: dict[str, Any], verdict: str
) -> None:
    found = figure(id, replace(GOOD, **change))
    assert found.verdict == verdict
    assert bool(found.remedy) == (verdict != "ok")


@pytest.mark.parametrize(("share", "verdict"), [(84, "ok"), (85, "warn"), (95, "fail")])
def test_the_fullest_host_counts(share: int, verdict: str) -> None:
    full = Host(rank=3, peak=share * GIB, peak_at_save=None, limit=100 * GIB)
    found = figure("host-memory", replace(GOOD, hosts=(*GOOD.hosts, full)))
    assert (found.verdict, "rank 3" in found.measured) == (verdict, True)


def test_memory_that_pytorch_reserves_is_compared_with_the_same_part_of_the_plan() -> None:
    assert figure("gpu-memory", GOOD).against == "80.0 GiB, planned 65.0"


def test_files_on_a_tmpfs_are_shown_and_are_not_in_the_plan() -> None:
    host = Host(rank=0, peak=90 * GIB, peak_at_save=40 * GIB, limit=100 * GIB, files=45 * GIB)
    found = figure("host-memory", replace(GOOD, hosts=(host,)))
    seen = "90.0 GiB on rank 0, 40.0 at the save, 45.0 of it files on a tmpfs"
    assert found.measured.endswith(seen)
    assert found.against == "100.0 GiB, planned 100.0 without files"
    assert found.remedy.startswith("keep the workspace on a disk")
    few = figure("host-memory", replace(GOOD, hosts=(replace(host, files=GIB),)))
    assert "files" not in few.measured + few.against + few.remedy


def test_a_grace_period_that_is_too_short_gets_one_that_fits() -> None:
    found = figure("grace", replace(GOOD, save_seconds=400.0))
    assert "terminationGracePeriodSeconds: 514" in found.remedy
    longer = replace(CONTEXT, grace_seconds=514.0)
    assert figure("grace", replace(GOOD, save_seconds=400.0), longer).verdict == "ok"


def test_a_figure_without_a_measurement_is_unknown_and_says_why() -> None:
    fields = ("gpu_gib", "step_seconds", "save_seconds", "load_seconds", "checkpoint_bytes")
    none: dict[str, Any] = dict.fromkeys((*fields, "evaluation_seconds", "export"))
    nothing = replace(GOOD, hosts=(), **none)
    figures, unknown = judge(nothing, CONTEXT)
    assert [each.id for each in figures] == ["resume"]
    assert len(unknown) == 9 and all(unknown.values())


def test_checkpoints_without_a_limit_are_as_many_as_the_run_saves() -> None:
    context = replace(CONTEXT, kept=None, save_every=300)
    assert "4 at a time" in figure("disk", GOOD, context).measured


def test_a_merged_model_takes_space_too() -> None:
    footprint = {"merges": "last", "merged": 60 * 10**9}
    last = replace(CONTEXT, plan={**PLAN, "footprint": footprint})
    every = replace(CONTEXT, plan={**PLAN, "footprint": {**footprint, "merges": "every"}})
    fitting = replace(GOOD, free_bytes=360 * 10**9)
    assert [figure("disk", fitting, c).verdict for c in (last, every)] == ["ok", "fail"]
    assert figure("disk", replace(fitting, free_bytes=360 * 10**9 - 1), last).verdict == "fail"


def test_a_failure_outweighs_a_warning_and_each_remedy_is_in_the_table() -> None:
    bad = replace(GOOD, gpu_gib=79.0, free_bytes=0)
    figures, unknown = judge(bad, CONTEXT)
    document = result.document("r", "d", 1.0, bad, figures, unknown)
    assert document["verdict"] == "fail"
    lines = result.table(document)
    assert all(line.startswith(result.LINE) for line in lines)
    assert lines[-1] == f"{result.LINE}verdict: fail"
    assert sum("free space" in line for line in lines) == 1
