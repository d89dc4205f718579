"""Conversion of results into calibration rows."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.plan import training_job
from scripts.dev import results
from scripts.dev.calibrate.rows import load
from tests.bench import calibration
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.profiles import ROOT

RUN: dict[str, Any] = {
    "steps": 4,
    "world": 4,
    "reserved_gib": 40.5,
    "seconds": {"median": 0.8},
    "tokens_per_step": 62_400,
    "s_eff": 1100.5,
}


def measured() -> dict[str, Any]:
    """Return a result with every layout of layouts.yaml, one of them out of memory."""
    options = bench_options.arguments(
        ["t", "r", "--layouts", str(ROOT / "tests" / "bench" / "layouts.yaml"), "--layers", "8"]
    )
    runs: dict[str, Any] = {}
    for profile in bench_options.profiles(options):
        flags = bench_profiles.recipe(profile.values(), {"train_iters": 6}).args
        runs[profile.name] = {**RUN, "flags": {**flags, "output_dir": "/data/out"}}
    name = "tp1-ep4-none"
    runs[name] = {"steps": 0, "out_of_memory": True, "world": 4, "flags": runs[name]["flags"]}
    runs["cut"] = {"skipped": "no time left"}
    return {"card": "h200", "layers": 8, "versions": {"torch": "2.11.0"}, "runs": runs}


def test_each_measured_layout_is_a_row(tmp_path: Path) -> None:
    record = measured()
    calibration.write("bench-layouts", record, tmp_path)
    found = {row.name: row for row in load(tmp_path)}
    runs = record["runs"]
    assert found.keys() == {f"bench-layouts-{name}" for name in runs if name != "cut"}
    full = found["bench-layouts-tp1-ep4-full"]
    assert (full.gib, full.seconds, full.tokens, full.mean_length) == (40.5, 0.8, 7800, 1100.5)
    assert full.model_config.layers == 8
    assert full.training.longest == 8192
    out = found["bench-layouts-tp1-ep4-none"]
    assert out.outOfMemory and out.gib is None
    assert found["bench-layouts-tp1-ep4-16k"].training.longest == 16384


def test_a_row_has_the_models_sizes_where_they_are_not_its_own() -> None:
    record = measured()
    (row, *_) = calibration.rows({**record, "layers": 48, "experts": 32}, "bench-a")
    assert row["config"] == {"num_experts": 32}
    (row, *_) = calibration.rows({**record, "layers": 48, "experts": 128}, "bench-a")
    assert "config" not in row


def test_a_row_keeps_every_flag_that_memory_and_speed_depend_on(tmp_path: Path) -> None:
    record = measured()
    calibration.write("bench-layouts", record, tmp_path)
    runs = record["runs"]
    for row in load(tmp_path):
        given = runs[row.name.removeprefix("bench-layouts-")]["flags"]
        args = {k: v for k, v in given.items() if k != "output_dir"}
        recipe = {"backend": "megatron", "task": "rlhf", "args": args}
        parsed = bench_profiles.recipe({"recipe": recipe}, {})
        whole = training_job.parse(parsed, nodes=1, gpus_per_node=4)
        assert row.training == replace(whole, longest=row.training.longest)


def test_a_result_replaces_its_own_visit_and_keeps_the_others(tmp_path: Path) -> None:
    for name in ("bench-layouts", "bench-other", "bench-layouts"):
        calibration.write(name, measured(), tmp_path)
    found = load(tmp_path)
    assert {row.visit for row in found} == {"bench-layouts", "bench-other"}
    assert len({row.name for row in found}) == len(found)


@pytest.mark.parametrize("name", ["rehearse-2xh200", "rehearse-pipeline-2xh100"])
def test_the_rows_of_rehearsals_have_the_readings_of_their_results(name: str) -> None:
    made = calibration.rehearsal(results.read()[name], name)
    (row,) = (row for row in load() if row.name == name)
    assert [dataclasses.asdict(each) for each in row.host] == made["host"]
    assert (row.card, row.gpusPerNode, row.config) == tuple(
        made[key] for key in ("card", "gpusPerNode", "config")
    )


def test_a_result_that_has_the_bytes_of_files_on_a_tmpfs_needs_no_estimate() -> None:
    host = {"rank": 0, "peak": 9 << 30, "peak_at_save": 8 << 30, "files": 2 << 30}
    measured = {"hosts": [host], "export": {"bytes": 1 << 30}, "checkpoint_bytes": 1 << 30}
    save, peak = calibration.host_readings(measured)
    assert (peak["gib"], peak["filesGib"], save["filesGib"]) == (9.0, 2.0, 2.0)
    save, peak = calibration.host_readings(
        {**measured, "hosts": [{**host, "files": None, "files_at_save": 0}]}
    )
    assert (peak["filesGib"], save["filesGib"]) == (0, 0)
