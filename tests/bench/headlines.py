"""The headline figures of all speed results: ``python3 -m tests.bench headlines [--write]``.

Prints ``figures.csv``, one line for each run with measured steps; ``--write`` writes it. A test
compares the file with the results.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.dev import results
from scripts.dev.figures import measured
from tests.bench.speed.table import joules_per_pair

FILE = Path(__file__).with_name("figures.csv")
PACKAGES = ("torch", "ms-swift", "megatron-core", "transformer-engine")
COLUMNS = (
    "date",
    "commit",
    "hardware",
    *PACKAGES,
    "result",
    "run",
    "files",
    "features",
    "layers",
    "experts",
    "gpus",
    "packs_per_step",
    "steps",
    "seconds_per_step",
    "tokens_per_s_gpu",
    "tokens_per_s_gpu_all",
    "tokens_per_s_gpu_one_epoch",
    "pairs_per_s",
    "joules_per_pair",
    "mfu",
    "reserved_gib",
    "first_loss",
    "data",
)
"""``tokens_per_s_gpu`` and ``mfu`` are of the median step, ``_all`` of all tokens over all seconds,
``_one_epoch`` the same with the reference's pass over one epoch; ``commit`` is empty for results
that did not record it."""


def rows(folder: Path = results.FOLDER) -> Iterator[dict[str, Any]]:
    found = results.read(folder, "bench-").items()
    for name, record in sorted(found, key=lambda each: str(each[1]["when"])):
        for run in measured.of(name, record):
            yield _row(record, run)


def _row(record: results.Record, run: measured.Run) -> dict[str, Any]:
    figures, visit = run.figures, results.visit_of(record)
    return {
        "date": record["when"][:10],
        "commit": record.get("commit", ""),
        "hardware": visit[11:],
        **{name: record.get("versions", {}).get(name, "") for name in PACKAGES},
        "result": run.result,
        "run": run.name,
        "files": " ".join(Path(file).name for file in run.files),
        "features": "none" if run.is_bare else "all",
        "layers": run.layers,
        "experts": run.experts,
        "gpus": run.gpus,
        "packs_per_step": run.packs,
        "steps": figures["steps"],
        "seconds_per_step": figures["seconds"]["median"],
        "tokens_per_s_gpu": round(run.rate, 1),
        "tokens_per_s_gpu_all": run.overall,
        "tokens_per_s_gpu_one_epoch": run.over_one_epoch,
        "pairs_per_s": figures.get("overall", {}).get("pairs_per_second"),
        "joules_per_pair": joules_per_pair(figures),
        "mfu": figures["mfu"],
        "reserved_gib": figures["reserved_gib"],
        "first_loss": figures["first_loss"]["first"],
        "data": f"results/{visit}.json",
    }


def text(folder: Path = results.FOLDER) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(folder))
    return stream.getvalue()


def main(words: Sequence[str]) -> int:
    made = text()
    print(made, end="")
    if "--write" in words:
        FILE.write_text(made, encoding="utf-8")
    return 0
