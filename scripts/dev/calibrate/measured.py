"""Rows of the calibration from results of the bench (``tests/bench/results``).

A run with measured steps gives memory and time, one that ran out of GPU memory a row that must be
refused; others are left out.
"""

import statistics
from collections.abc import Mapping
from typing import Any

from launchers.plan.training_job import Training
from scripts.dev.results import visit_of

MODEL = "Qwen3-30B-A3B"
SIZES = {"layers": ("num_hidden_layers", 48), "experts": ("num_experts", 128)}
"""Model sizes in a result: their names in ``config.json``, and the model's own values."""
STARTS = ("recompute_", "optimizer", "exp_avg", "main_", "moe_", "overlap_", "lora_", "tuner_")
ENDS = ("_parallel_size", "batch_size", "_in_pipeline_split", "_pipeline_num_layers")
NAMES = (
    "packing", "packing_length", "max_length", "sequence_parallel", "attention_backend",
    "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "target_modules", "rlhf_type",
    "use_precision_aware_optimizer", "use_distributed_optimizer", "task_type",
)  # fmt: skip
"""Flags that ``launchers/plan/training_job.py`` reads, by prefix, suffix or name."""

BARE = "seconds of ms-swift without the launcher's features"
EARLIER = "seconds with a pointer to each expert's weight, before expert_order"


def rows(
    record: Mapping[str, Any], result: str, more: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the fields of the rows of a result.

    ``more``: fields of the row by the name of the run.
    """
    found = []
    for name, run in record["runs"].items():
        if run.get("steps") or run.get("out_of_memory"):
            row = _row(f"{result}-{name}", record, run, result) | {"visit": visit_of(record)}
            extra = more.get(name, {})
            found.append(row | extra | {"facts": row["facts"] | extra.get("facts", {})})
    return found


def _row(
    name: str, record: Mapping[str, Any], run: Mapping[str, Any], result: str
) -> dict[str, Any]:
    flags = run["flags"]
    has_ours = "grouped_product" in " ".join(run.get("features", flags.get("external_plugins", ())))
    versions = ", ".join(f"{k} {v}" for k, v in record.get("versions", {}).items() if v)
    row: dict[str, Any] = {
        "name": name,
        "source": f"measured here by tests/bench/speed (tests/bench/results, {result}); {versions}",
        "card": record["card"],
        "model": MODEL,
        "gpusPerNode": run["world"],
        "args": {k: v for k, v in flags.items() if _matters(k)},
        "facts": {
            "longest": int(flags.get("packing_length", flags["max_length"])),
            "moves_rows": "moved_rows" in run.get("features", ()),
            "labelled": Training.labelled if "counted_head" in run.get("features", ()) else 1.0,
        },
    }
    is_full = flags.get("tuner_type", "full") == "full"
    if not has_ours:
        row |= {"fit_seconds": False, "note": BARE}
    elif is_full and "expert_order" not in run.get("features", ()):
        row |= {"fit_seconds": False, "note": EARLIER}
    if config := {
        key: record[name] for name, (key, own) in SIZES.items() if record.get(name, own) != own
    }:
        row["config"] = config
    if run.get("reference") == "precomputed":
        row["facts"] |= {"reference": False, "compares": False}
    if not run.get("steps"):
        return row | {"outOfMemory": True}
    traced = [each["compute_ms"] for each in run.get("kernels", ()) if "microbatches" not in each]
    if traced and row["facts"]["moves_rows"]:
        row["kernels"] = statistics.mean(traced) / 1e3
    microbatches = int(flags["global_batch_size"]) / int(flags.get("micro_batch_size", 1))
    return row | {
        "reads": "reserved",
        "gib": run["reserved_gib"],
        "seconds": run["seconds"]["median"],
        "tokens": round(run["tokens_per_step"] / microbatches),
        "mean_length": run["s_eff"],
    }


def _matters(flag: str) -> bool:
    """Return whether a flag changes memory or time.

    >>> [_matters(flag) for flag in ("expert_model_parallel_size", "moe_grouped_gemm", "lr")]
    [True, True, False]
    """
    return flag in NAMES or flag.startswith(STARTS) or flag.endswith(ENDS)
