"""Convert a result of the bench into calibration rows of the predictors.

    python3 -m tests.bench calibration bench-layouts

writes the visit ``bench-layouts`` of ``scripts/dev/calibrate/rows/bench.yaml``; ``make calibrate``
then prints the predictors' error of each row and the constants that fit best. A run with measured
steps gives memory and time, one that ran out of GPU memory a row that must be refused; others are
left out. A rehearsal gives the host memory of rank 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from launchers.config import gpu_models
from launchers.units import GIB
from scripts.dev import results
from scripts.dev.calibrate.rows import MERGED, ROWS
from tests.bench.speed import profiles as bench_profiles

MODEL = "Qwen3-30B-A3B"
SEPARATOR = "---\n"
"""Between the visits of a file: YAML's document separator."""
SIZES = {"layers": ("num_hidden_layers", 48), "experts": ("num_experts", 128)}
"""Model sizes in a result: their names in ``config.json``, and the model's own values."""
STARTS = ("recompute_", "optimizer", "exp_avg", "main_", "moe_", "overlap_", "lora_", "tuner_")
ENDS = ("_parallel_size", "batch_size", "_in_pipeline_split", "_pipeline_num_layers")
NAMES = (
    "packing",
    "packing_length",
    "max_length",
    "sequence_parallel",
    "attention_backend",
    "cross_entropy_loss_fusion",
    "cross_entropy_fusion_impl",
    "target_modules",
    "rlhf_type",
    "use_precision_aware_optimizer",
    "use_distributed_optimizer",
    "task_type",
)
"""Flags that ``launchers/plan/training_job.py`` reads, by prefix, suffix or name."""


def rows(record: Mapping[str, Any], result: str) -> list[dict[str, Any]]:
    """Return the rows of a result.

    Args:
        record: the bench's result.
        result: its name.
    """
    return [
        _row(f"{result}-{name}", record, run, result)
        for name, run in record["runs"].items()
        if run.get("steps") or run.get("out_of_memory")
    ]


def _row(
    name: str, record: Mapping[str, Any], run: Mapping[str, Any], result: str
) -> dict[str, Any]:
    flags = run["flags"]
    versions = ", ".join(f"{k} {v}" for k, v in record.get("versions", {}).items() if v)
    by = record.get("by", "tests/bench/speed")
    row: dict[str, Any] = {
        "name": name,
        "source": f"measured here by {by} (tests/bench/results, {result}); {versions}",
        "card": record["card"],
        "model": MODEL,
        "gpusPerNode": run["world"],
        "args": {k: v for k, v in flags.items() if _matters(k)},
        "facts": {"longest": int(flags.get("packing_length", flags["max_length"]))},
    }
    if config := {
        key: record[name] for name, (key, own) in SIZES.items() if record.get(name, own) != own
    }:
        row["config"] = config
    if run.get("reference") == "precomputed":
        row["facts"] |= {"reference": False, "compares": False}
    if "note" in record and record.get("fit_seconds") is False:
        row |= {"fit_seconds": False, "note": record["note"]}
    if not run.get("steps"):
        return row | {"outOfMemory": True}
    microbatches = int(flags["global_batch_size"]) / int(flags.get("micro_batch_size", 1))
    return row | {
        "reads": "reserved",
        "gib": run["reserved_gib"],
        "seconds": run["seconds"]["median"],
        "tokens": round(run["tokens_per_step"] / microbatches),
        "mean_length": run["s_eff"],
    }


def rehearsal(record: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Return the row of a rehearsal's result: its host memory.

    Its GPU memory and time are not fitted: it trains few layers for four steps.

    Args:
        record: the result of ``launcher/rehearse.py``.
        result: its name.
    """
    card = gpu_models.by_smi_name(record["gpus"][0].rpartition(",")[0])
    assert card is not None
    # earlier results have the folder's earlier name
    profile = bench_profiles.parse(record["profile"].replace("tests/gpu/", "tests/bench/"))
    flags = bench_profiles.recipe(profile.values(), {}).args
    versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items() if v)
    return {
        "name": result,
        "source": "measured here by tests/bench/launcher/rehearse.py (tests/bench/results, "
        f"{result}); {versions}",
        "card": card.name,
        "model": MODEL,
        "config": {SIZES["layers"][0]: record["layers"]},
        "gpusPerNode": record["gpus_used"],
        "args": {k: v for k, v in flags.items() if _matters(k)},
        "host": host_readings(record["report"]["measured"]),
    }


def host_readings(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the host memory of rank 0 in the save and at its peak, with the files on a tmpfs.

    Earlier results do not have the bytes of files. Their workspace was a tmpfs: in the save it held
    the model and a checkpoint; at the peak, which is the end of the last save, two checkpoints, and
    safetensors as large as the model.

    Args:
        measured: ``measured`` of the rehearsal's report.
    """
    (host,) = (each for each in measured["hosts"] if each["rank"] == 0)
    model, checkpoint = measured["export"]["bytes"], measured["checkpoint_bytes"]
    files_at_save = host.get("files_at_save", model + checkpoint)
    files = host.get("files", 2 * (model + checkpoint))
    readings = [("save", host["peak_at_save"], files_at_save), ("peak", host["peak"], files)]
    return [
        {"when": when, "gib": round(used / GIB, 3), "filesGib": round((held or 0) / GIB, 3)}
        for when, used, held in readings
    ]


def _matters(flag: str) -> bool:
    """Return whether a flag changes memory or time.

    >>> [_matters(flag) for flag in ("expert_model_parallel_size", "moe_grouped_gemm", "lr")]
    [True, True, False]
    """
    return flag in NAMES or flag.startswith(STARTS) or flag.endswith(ENDS)


def write(result: str, record: Mapping[str, Any], folder: Path = ROWS) -> Path:
    """Write the rows of a result as one visit, in place of an earlier one; return the file."""
    found = [rehearsal(record, result)] if "report" in record else rows(record, result)
    path = folder / "bench.yaml"
    texts = path.read_text(encoding="utf-8").split(SEPARATOR) if path.exists() else []
    others = [text for text in texts if yaml.safe_load(text)["visit"] != result]
    head = f"# Made by `python3 -m tests.bench calibration {result}`.\n"
    text = yaml.safe_dump(
        document(result, found), sort_keys=False, width=100, default_flow_style=None
    )
    path.write_text(SEPARATOR.join([*others, head + text]), encoding="utf-8")
    return path


def document(visit: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as ``rows.load`` of the calibration reads them; what all share is said once."""
    if len(found) == 1:
        return {"visit": visit, "rows": list(found)}
    shared = _shared(found) | {key: _shared([row.get(key, {}) for row in found]) for key in MERGED}
    rows = [
        _rest(row, shared) | {key: _rest(row.get(key, {}), shared[key]) for key in MERGED}
        for row in found
    ]
    return {"visit": visit} | _filled(shared) | {"rows": [_filled(row) for row in rows]}


def _shared(maps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = maps
    return {k: v for k, v in first.items() if all(k in each and each[k] == v for each in others)}


def _rest(given: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in shared}


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value != {}}


def main(words: Sequence[str] | None = None) -> int:
    """Write the rows of each result of the command line."""
    known = results.read()
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench calibration")
    parser.add_argument("results", nargs="+", metavar="NAME", choices=known)
    for name in parser.parse_args(words).results:
        print(write(name, known[name]))
    return 0
