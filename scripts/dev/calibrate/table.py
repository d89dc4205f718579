"""The tables that ``make calibrate`` prints."""

import math
from collections.abc import Mapping, Sequence

from rich.table import Table

from scripts.dev.calibrate import host, memory, speed
from scripts.dev.calibrate.rows import Row

GOAL = 0.05
"""Relative error that the memory of a row should not exceed."""


def memory_table(rows: Sequence[Row], crossed: Mapping[str, float]) -> Table:
    """Build the table of memory.

    ``crossed``: a row's name to its error by constants that were fitted without it.
    """
    table = Table(title="GiB of the fullest GPU")
    for column in (
        "row",
        "GPU model",
        "reads",
        "measured",
        "predicted",
        "error",
        "left out",
        "note",
    ):
        right = column in ("measured", "predicted", "error", "left out")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        predicted = row.memory()
        if row.gib is None:
            fits = predicted.total <= row.gpu.memory_gib
            seen = f"> {row.gpu.memory_gib:.1f}"
            said = "[red]said to fit" if fits else "refused"
            table.add_row(row.name, row.card, "out", seen, f"{predicted.total:.1f}", said, "", "")
            continue
        off = memory.error(row)
        table.add_row(
            row.name,
            row.card,
            row.reads,
            f"{row.gib:.1f}",
            f"{row.reading(predicted):.1f}",
            _coloured(off, row.fit),
            f"{crossed[row.name]:+.1%}" if row.name in crossed else "",
            row.note if not row.fit or abs(off) > GOAL else "",
        )
    return table


def host_table(rows: Sequence[Row]) -> Table:
    """Build the table of host memory, one line for each reading."""
    table = Table(title="GiB of host memory, without files on a tmpfs")
    for column in ("row", "when", "charged", "files", "measured", "predicted", "error"):
        table.add_column(column, justify="left" if column in ("row", "when") else "right")
    for row, reading in host.readings(rows):
        gib = (reading.gib, reading.filesGib, reading.own, host.predicted((row, reading)))
        off = host.error((row, reading))
        table.add_row(row.name, reading.when, *(f"{each:.1f}" for each in gib), f"{off:+.1%}")
    return table


def speed_table(rows: Sequence[Row], crossed: Mapping[str, float]) -> Table:
    """Build the table of time.

    ``crossed``: a row's name to its logarithmic error by constants without its visit.
    """
    table = Table(title="seconds of a step")
    for column in ("row", "GPU model", "measured", "predicted", "error", "visit left out", "MFU"):
        table.add_column(column, justify="left" if column in ("row", "GPU model") else "right")
    for row in rows:
        predicted = row.speed()
        off = math.expm1(speed.error(row))
        table.add_row(
            row.name,
            row.card,
            f"{row.seconds:.2f}",
            f"{predicted.step_seconds:.2f}",
            f"{off:+.0%}" if row.name in crossed else f"[dim]{off:+.0%} not fitted",
            f"{math.expm1(crossed[row.name]):+.0%}" if row.name in crossed else "",
            f"{predicted.mfu:.1%}",
        )
    return table


def _coloured(off: float, fitted: bool) -> str:
    if not fitted:
        return f"[dim]{off:+.1%} not fitted"
    return f"[{'green' if abs(off) <= GOAL else 'yellow'}]{off:+.1%}"
