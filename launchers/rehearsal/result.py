"""The report of a rehearsal: ``runs/<release>/rehearsal.json``, and a table in rank 0's log.

The format, version 1; sizes are bytes, GiB where the name says so, times seconds. What could not be
measured is null:

    version  run  digest (of recipe and launcher)  finished (Unix time)  verdict (ok, warn or fail)
    figures[{id, verdict, measured, against, remedy}]
    unknown{id: reason}
    measured{...}  the fields of ``measured.Measured``
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from launchers.rehearsal.figures import Figure, Verdict
from launchers.rehearsal.measured import Measured

VERSION = 1
LINE = "rehearsal | "
"""Each line of the table begins with it, by which ``megatron-dpo rehearse`` finds them."""


def verdict(figures: Iterable[Figure]) -> Verdict:
    """Return the worst verdict."""
    found = {figure.verdict for figure in figures}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def document(
    run: str,
    digest: str,
    finished: float,
    measured: Measured,
    figures: Iterable[Figure],
    unknown: Mapping[str, str],
) -> dict[str, Any]:
    """Return the report as JSON data."""
    listed = list(figures)
    return {
        "version": VERSION,
        "run": run,
        "digest": digest,
        "finished": round(finished, 3),
        "verdict": verdict(listed),
        "figures": [asdict(figure) for figure in listed],
        "unknown": dict(unknown),
        "measured": asdict(measured),
    }


def table(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table, from the report's document."""
    rows = [("figure", "verdict", "measured", "limit or prediction")]
    rows += [(f["id"], f["verdict"], f["measured"], f["against"]) for f in report["figures"]]
    rows += [(id, "unknown", why, "") for id, why in report["unknown"].items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append(f"{LINE}{'  '.join([*cells, row[3]]).rstrip()}")
    remedies = [(f["id"], f["remedy"]) for f in report["figures"] if f["remedy"]]
    lines += [f"{LINE}{id}: {remedy}" for id, remedy in remedies]
    return [*lines, f"{LINE}verdict: {report['verdict']}"]
