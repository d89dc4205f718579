"""The prediction of host memory against its rows."""

from collections.abc import Sequence

from launchers.plan.memory import PROCESS
from launchers.units import GIB
from scripts.dev.calibrate.fit import Bounds, Vector, solve
from scripts.dev.calibrate.rows import HostReading, Row

Read = tuple[Row, HostReading]
BOUNDS = Bounds(low=0.5, start=5.0, high=20.0)
"""Plausible GiB of ``PROCESS``."""


def readings(rows: Sequence[Row]) -> list[Read]:
    """Return all readings, each with its row."""
    return [(row, reading) for row in rows for reading in row.host]


def predicted(read: Read, process: float = PROCESS / GIB) -> float:
    """Predict a reading without files on a tmpfs, in GiB."""
    row, reading = read
    node = row.node
    whole = node.total if reading.when == "peak" else node.at_save
    return (whole - node.processes) / GIB + row.training.layout.gpus_per_node * process


def error(read: Read, process: float = PROCESS / GIB) -> float:
    """Return the relative error of a reading."""
    return predicted(read, process) / read[1].own - 1


def refit(rows: Sequence[Row]) -> float:
    """Return the GiB of a rank that fit the readings best."""
    found = readings(rows)

    def errors(constants: Sequence[float]) -> Vector:
        return [error(read, constants[0]) for read in found]

    return solve(errors, [BOUNDS])[0]
