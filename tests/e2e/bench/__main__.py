"""`make bench-cluster`: run the cases on the running cluster and print one JSON document.

The pods of the large gangs are on nodes that kwok simulates, which measures the control plane:
Helm, JobSet, Kueue with topology, scheduler. The small gang has real pods.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.dev import results
from scripts.problem import Problem
from tests.e2e.bench import api, cases, kwok, queues, start
from tests.e2e.cluster.cluster import connect
from tests.e2e.cluster.layout import Layout
from tests.e2e.image import __main__ as image

QUOTA = 8 * 1024
TABLE = Path(__file__).parent / "start.csv"
Only = Annotated[list[str] | None, typer.Option(help="Cases to run instead of all.")]
Out = Annotated[Path | None, typer.Option(help="Also write the result to this file.")]


def main(only: Only = None, out: Out = None) -> None:
    layout = Layout()
    result: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "kernel": os.uname().release},
        "versions": kwok.versions(),
    }
    objects = queues.objects(QUOTA) + queues.real(layout)
    api.apply(layout, objects)
    try:
        for name, case in CASES.items():
            if not only or name in only:
                result[name] = case(layout)
                typer.echo(f"{name}: {json.dumps(result[name])}", err=True)
    finally:
        api.delete(layout, objects)
    text = results.text(result)
    typer.echo(text, nl=False)
    if out:
        out.write_text(text, encoding="utf-8")


def gang_128(layout: Layout) -> dict[str, Any]:
    """One gang of 128 pods and 1,024 GPUs on 128 nodes; three times, the first one cold."""
    with kwok.running(layout, kwok.Fleet(size=128), "hold"):
        return {"rounds": [cases.gang(layout, 128, 120) for _ in range(3)]}


def gang_1024(layout: Layout) -> dict[str, Any]:
    """One gang of 1,024 pods, 8,192 GPUs."""
    with kwok.running(layout, kwok.Fleet(size=1024), "hold"):
        return cases.gang(layout, 1024, 300)


def drain(layout: Layout) -> dict[str, Any]:
    """100 gangs of 16 pods at once on 512 nodes."""
    with kwok.running(layout, kwok.Fleet(size=512), "complete"):
        return cases.drain(layout, 100, 16, 600)


def installs(layout: Layout) -> dict[str, Any]:
    """50 installs of a gang of two real pods."""
    connect().load_image(image.ARCHIVE)
    return cases.installs(layout, 50, 60)


def starts(layout: Layout) -> dict[str, Any]:
    """100 gangs without pods: predicted against actual start, each prediction in start.csv."""
    return start.replay(layout, TABLE)


CASES: dict[str, Callable[[Layout], dict[str, Any]]] = {
    "installs": installs,
    "gang_128": gang_128,
    "gang_1024": gang_1024,
    "drain": drain,
    "starts": starts,
}

if __name__ == "__main__":
    try:
        typer.run(main)
    except (Problem, TimeoutError) as problem:
        raise SystemExit(f"error: {problem}") from None
