"""Report pages of committed GPU results (``tests/bench/results``), as runs side by side."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.dev import results
from scripts.dev.figures.pictures import FOLDER
from scripts.report import metrics_file, reading
from scripts.report.html import page
from scripts.report.record import RunRecord

PAGES: Mapping[str, Mapping[str, str]] = {
    "bench-4gpu-split": {"tuned": "with patches", "bare": "without patches"}
}
"""Result to its runs, each with the name that the page shows."""


def write() -> list[Path]:
    """Write all pages; return their paths."""
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / f"{name}.html").write_text(render(name), encoding="utf-8")
    return [FOLDER / f"{name}.html" for name in PAGES]


def render(name: str) -> str:
    """Return the page of a result; the same result, the same page."""
    record = results.read(prefix=name)[name]
    shown = PAGES[name]
    runs = [_run(record, key, label, name) for key, label in shown.items()]
    return page.render(runs, list(shown.values()))


def _run(record: Mapping[str, Any], key: str, label: str, result: str) -> RunRecord:
    run = record["runs"][key]
    found = reading.from_metrics(metrics_file.read_lines(map(rows.line, run_rows(run))))
    found["medians"]["mfu"] = run["mfu"]
    return RunRecord(
        **found,
        name=label,
        place=f"tests/bench/results/{results.visit_of(record)}.json, {result}, run {key}",
        progress={"state": "succeeded" if run["finished"] else "failed"},
        plan={"recipe": _recipe(run), "gang": _gang(record)},
        features={"versions": record["versions"]},
    )


def run_rows(run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of the steps of a run, as far as its result has them."""
    log, steps = run["log"], run["each_step"]
    ends = itertools.accumulate(steps["seconds"])  # the result has no clock times
    for at, (end, seconds, tokens) in enumerate(
        zip(ends, steps["seconds"], steps["tokens"], strict=True)
    ):
        yield Row(
            step=at + 1,
            total=len(steps["seconds"]),
            attempt=1,
            time=end,
            seconds=seconds,
            tokens=tokens,
            world=run["world"],
            tokens_per_second_per_gpu=tokens / seconds / run["world"],
            reserved_gib=log["memory(GiB)"][at],
            token_balance=steps["balance"][at],
            grad_norm=log["grad_norm"][at],
            learning_rate=log["learning_rate"][at],
            values={name: log[name][at] for name in metrics_file.TRAINER},
        )


def _recipe(run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "backend": "megatron",
        "task": "rlhf",
        "model": "Qwen3-30B-A3B with random weights",
        "dataset": ["generated pairs, see tests/bench/notes/speed.md"],
        "reference": run["reference"],
        "args": run["flags"],
    }


def _gang(record: Mapping[str, Any]) -> dict[str, Any]:
    gpus: Sequence[str] = record["gpus"]
    return {"nodes": 1, "gpus_per_node": len(gpus), "card": gpus[0].split(",")[0]}
