"""Check the metrics of a Megatron run: ``python3 -m tests.gpu.metrics RUN MODEL [RESULT.json]``.

RUN is the run's folder on the workspace (``runs/<release>``), MODEL the folder with the model's
config.json. Compares ``metrics.jsonl`` with ms-swift's own log, which must contain every
step (``logging_steps 1``), and its speed with the formula; prints differences and exits with 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
from math import isclose
from pathlib import Path
from typing import Any

from launchers.config import gpu_models
from launchers.metrics import rows as metrics
from launchers.metrics.rows import Row
from launchers.metrics.trainer_log import LOG, read_losses
from launchers.plan import flops, model_config

SKIP = 2
"""First steps, which compile; excluded from the medians."""
COLUMNS = (
    *("tokens", "squares", "data_seconds", "mfu", "hardware_tflops_per_gpu", "grad_norm"),
    *("allocated_gib", "reserved_gib", "learning_rate", "token_balance", "metrics_seconds"),
)


def logged(run: Path) -> dict[int, dict[str, Any]]:
    """Return ms-swift's rows by step."""
    return {step.number: step.row for step in read_losses(run / "checkpoints" / LOG)}


def problems(rows: list[Row], log: dict[int, dict[str, Any]], model: Path) -> list[str]:
    """Return a sentence for each difference."""
    found = []
    if [row.step for row in rows] != sorted(log):
        found.append(f"steps {[row.step for row in rows]}, ms-swift logged {sorted(log)}")
    sizes = model_config.parse_config(
        json.loads((model / "config.json").read_text(encoding="utf-8"))
    )
    for row in rows:
        theirs = log.get(row.step, {})
        pairs = {"grad_norm": row.grad_norm, "learning_rate": row.learning_rate, **row.values}
        for name, value in pairs.items():
            if name in theirs and not isclose(
                theirs[name], value or 0.0, rel_tol=1e-5, abs_tol=1e-7
            ):
                found.append(f"step {row.step}: {name} {value}, ms-swift logged {theirs[name]}")
        least = 0.99 * theirs.get("memory(GiB)", 0.0)  # theirs: one group; ours: all
        if (row.reserved_gib or 0.0) < least:
            found.append(f"step {row.step}: reserved {row.reserved_gib} GiB, logged over {least}")
        missing = [name for name in COLUMNS if getattr(row, name) is None and row.step > 1]
        if missing:
            found.append(f"step {row.step}: no {', '.join(missing)}")
        elif row.step > 1:
            found += speed(row, sizes)
        if sizes.is_moe and not 1 <= (row.expert_load or 0) <= sizes.experts:
            found.append(f"step {row.step}: expert_load {row.expert_load}")
    return found


def speed(row: Row, sizes: model_config.ModelConfig) -> list[str]:
    """Compare a row's speed with the formula for DPO with or without reference."""
    assert row.tokens and row.squares and row.mfu and row.card
    rate = row.tokens / row.seconds / row.world
    one = rate * flops.forward(sizes, row.squares / row.tokens) / 1e12
    found = []
    if abs((row.tokens_per_second_per_gpu or 0.0) / rate - 1) > 1e-9:
        found.append(f"step {row.step}: {row.tokens_per_second_per_gpu} tokens/s/GPU, not {rate}")
    passes = row.mfu * gpu_models.GPU_MODELS[row.card].peak_tflops / one
    if min(abs(passes - 3), abs(passes - 4)) > 1e-6:
        found.append(f"step {row.step}: mfu counts {passes} passes, not 3 or 4")
    return found


def main() -> int:
    """Check a run; print the summary and write it to RESULT."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.metrics")
    parser.add_argument("run", type=Path, help="the run's folder on the workspace")
    parser.add_argument("model", type=Path, help="folder with the model's config.json")
    parser.add_argument("result", type=Path, nargs="?", help="file to write as well")
    options = parser.parse_args()
    run, model = options.run, options.model
    rows = metrics.read(run / "metrics.jsonl")
    wrong = problems(rows, logged(run), model)
    steady = rows[SKIP:] or rows
    names = ("seconds", "other_seconds", "tokens_per_second_per_gpu", *COLUMNS, "expert_load")
    medians = {
        name: statistics.median(values)
        for name in names
        if (values := [v for row in steady if (v := getattr(row, name)) is not None])
    }
    share = medians.get("metrics_seconds", 0.0) / medians["seconds"]
    summary = {"steps": len(rows), "wrong": wrong, "median": medians, "metrics_share": share}
    print(json.dumps(summary, indent=1))
    if options.result:
        options.result.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
