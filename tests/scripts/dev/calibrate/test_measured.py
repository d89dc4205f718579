"""Rows of results of the bench."""

from dataclasses import replace
from typing import Any

import pytest

from launchers.config import recipe
from launchers.plan import training_job
from launchers.units import GIB
from scripts.dev import results
from scripts.dev.calibrate import measured
from scripts.dev.calibrate.rows import load

RESULTS = results.read()
ROWS = {row.name: row for row in load()}
RUN: dict[str, Any] = {"steps": 4, "world": 4, "reserved_gib": 40.5, "seconds": {"median": 0.8}}
RUN |= {"tokens_per_step": 62_400, "s_eff": 1100.5}
RUN["flags"] = {"global_batch_size": "8", "max_length": "8192", "packing_length": "16384"}
OUT = {"steps": 0, "out_of_memory": True, "world": 4, "flags": RUN["flags"]}
GPUS = {"when": "2026-11-28T06:18:00+00:00", "gpus": ["NVIDIA H200, 580"] * 4}
RECORD = {
    **GPUS,
    "card": "h200",
    "layers": 8,
    "runs": {"ran": RUN, "out": OUT, "cut": {"skipped": "time"}},
}
OTHERS = ("model", "ref_model", "dataset", "output_dir", "add_version", "no_save_optim")
"""Flags of a result that launcher and bench set, not the recipe."""


def test_each_run_with_steps_or_out_of_memory_is_a_row() -> None:
    ran, out = measured.rows(
        RECORD, "bench-a", {"ran": {"fit": False, "note": "why", "facts": {"labelled": 0.4}}}
    )
    wanted = {
        "name": "bench-a-ran",
        "visit": "2026-11-28-4xh200",
        "fit": False,
        "gib": 40.5,
        "seconds": 0.8,
    }
    assert wanted.items() <= ran.items() and ran["tokens"] == 7800 and out["note"] == measured.BARE
    assert ran["facts"] == {"longest": 16384, "moves_rows": False, "labelled": 0.4}
    assert ran["config"] == {"num_hidden_layers": 8}
    assert out["outOfMemory"] and "gib" not in out


def test_kernels_of_a_traced_step_are_the_mean_of_the_gpus_without_those_of_the_pass() -> None:
    kernels = [{"compute_ms": 700}, {"compute_ms": 900}, {"compute_ms": 90, "microbatches": 6}]
    run = {**RUN, "kernels": kernels, "features": ["grouped_product", "moved_rows"]}
    [row] = measured.rows({**RECORD, "runs": {"ran": run}}, "bench-a", {})
    assert row["kernels"] == 0.8


def test_a_row_has_the_models_sizes_where_they_are_not_its_own() -> None:
    (row, _) = measured.rows({**RECORD, "layers": 48, "experts": 32}, "bench-a", {})
    assert row["config"] == {"num_experts": 32}
    (row, _) = measured.rows({**RECORD, "layers": 48, "experts": 128}, "bench-a", {})
    assert "config" not in row


@pytest.mark.parametrize(
    ("features", "tuner", "note"),
    [
        (["grouped_product"], "full", measured.EARLIER),
        (["grouped_product"], "lora", None),
        (["grouped_product", "expert_order"], "full", None),
        ([], "full", measured.BARE),
    ],
)
def test_seconds_of_another_program_are_not_fitted(
    features: list[str], tuner: str, note: str | None
) -> None:
    run = {**RUN, "features": features, "flags": {**RUN["flags"], "tuner_type": tuner}}
    [row] = measured.rows({**RECORD, "runs": {"ran": run}}, "bench-a", {})
    assert (row.get("fit_seconds", True), row.get("note")) == (note is None, note)


@pytest.mark.parametrize("name", [name for name in RESULTS if f"{name}-tuned" in ROWS])
def test_a_row_keeps_every_flag_that_memory_and_speed_depend_on(name: str) -> None:
    row, flags = ROWS[f"{name}-tuned"], RESULTS[name]["runs"]["tuned"]["flags"]
    args = {key: value for key, value in flags.items() if key not in OTHERS}
    document = {"backend": "megatron", "task": "rlhf", "model": "hf://a/b", "dataset": ["hf://a/b"]}
    parsed = recipe.parse({**document, "args": args})
    whole = training_job.parse(parsed, nodes=1, gpus_per_node=row.gpusPerNode)
    facts = {key: getattr(row.training, key) for key in row.facts}
    assert row.training == replace(whole, **facts)


@pytest.mark.parametrize("name", ["rehearse-2xh200", "rehearse-pipeline-2xh100"])
def test_the_rows_of_rehearsals_have_the_readings_of_their_results(name: str) -> None:
    (host,) = (h for h in RESULTS[name]["report"]["measured"]["hosts"] if h["rank"] == 0)
    wanted = {"save": round(host["peak_at_save"] / GIB, 3), "peak": round(host["peak"] / GIB, 3)}
    assert {each.when: each.gib for each in ROWS[name].host} == wanted
