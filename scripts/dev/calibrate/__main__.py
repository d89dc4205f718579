"""``python -m scripts.dev.calibrate``: fit the constants, and print the error of each row."""

import dataclasses
import math
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console

from launchers.plan.memory import FIT, HOST_ERROR_SHARE, MEMORY_ERROR_SHARE, PROCESS
from launchers.plan.step_time import PACE
from launchers.units import GIB
from scripts.dev.calibrate import host, memory, speed
from scripts.dev.calibrate.rows import Row, load
from scripts.dev.calibrate.table import GOAL, host_table, memory_table, speed_table
from scripts.problem import Problem


def main() -> int:
    """Print both tables; return 1 if a run that ran out of memory is predicted to fit."""
    console = Console(width=150 if not sys.stdout.isatty() else None)
    try:
        rows = load()
    except Problem as problem:
        console.print(f"[red]{problem}")
        return 2
    wrong = _memory(console, rows)
    _host(console, rows)
    _speed(console, rows)
    return 1 if wrong else 0


def _memory(console: Console, rows: Sequence[Row]) -> list[str]:
    used = memory.fitted(rows)
    crossed = memory.cross_errors(used)
    shown = [row for row in rows if row.gib is not None or row.outOfMemory]
    names = [row.name for row in used]
    console.print(memory_table(shown, dict(zip(names, crossed, strict=True))))
    errors = [abs(memory.error(row)) for row in used]
    within = sum(error <= GOAL for error in errors)
    _constants(console, FIT, memory.refit(used))
    out = [row for row in rows if row.outOfMemory]
    wrong = [row.name for row in out if row.memory().total <= row.gpu.memory_gib]
    console.print(
        f"memory: {len(used)} rows fitted with {len(memory.BOUNDS)} constants; mean |error| "
        f"{statistics.mean(errors):.1%}, left out {statistics.mean(map(abs, crossed)):.1%}; "
        f"{within} of {len(used)} within {GOAL:.0%}, worst {max(errors):.1%}; "
        f"{len(out) - len(wrong)} of {len(out)} runs out of memory refused"
    )
    ours = [abs(error) for error in memory.unseen(used)]
    console.print(
        f"  fitted on published rows alone, the {len(ours)} that were measured here are off by "
        f"{statistics.mean(ours):.1%}, the worst by {max(ours):.1%}"
    )
    ran = [row for row in rows if row.gib is not None]
    refused = [row.name for row in ran if row.memory().total > row.gpu.memory_gib]
    console.print(
        f"  left out, root mean square {_rms(crossed):.1%} (the code has "
        f"{MEMORY_ERROR_SHARE:.1%}); of {len(ran)} runs that ran "
        f"{len(refused)} would have been refused {' '.join(refused)}"
    )
    return wrong


def _host(console: Console, rows: Sequence[Row]) -> None:
    """Print the table of host memory, its one constant, and the runs that did not fit."""
    console.print(host_table(rows))
    errors = [abs(host.error(read)) for read in host.readings(rows)]
    console.print(
        f"  a rank: in the code {PROCESS / GIB:.4g} GiB, fits best {host.refit(rows):.4g}; mean "
        f"|error| {statistics.mean(errors):.1%}, worst {max(errors):.1%} (allowed "
        f"{HOST_ERROR_SHARE:.0%})"
    )
    for row in rows:
        if row.hostGibOver is not None:
            console.print(
                f"  {row.name}: its node needed more than {row.hostGibOver:.0f} GiB; predicted "
                f"{row.node_gib():.0f}"
            )


def _speed(console: Console, rows: Sequence[Row]) -> None:
    used = speed.fitted(rows)
    crossed = speed.cross_errors(rows)
    timed = [row for row in rows if row.seconds is not None]
    names = [row.name for row in used]
    console.print(speed_table(timed, dict(zip(names, crossed, strict=True))))
    for row in speed.traced(rows):
        off = math.expm1(speed.kernels_error(row))
        console.print(f"  {row.name}: kernels {row.kernels:.3f} s, predicted {off:+.1%}")
    _constants(console, PACE, speed.refit(rows))
    spread = _rms(crossed)
    today = [e for row, e in zip(used, crossed, strict=True) if not row.training.host_waits]
    console.print(
        f"speed: {len(used)} rows fitted with {1 + len(speed.BOUNDS)} constants; by the other "
        f"visits' rows the logarithm is off by {spread:.2f} (a factor of {math.exp(spread):.2f}); "
        f"the code has {PACE.spread}\n"
        f"  the {len(today)} rows of today's program are off by a factor of "
        f"{math.exp(_rms(today)):.2f}, the worst of {math.exp(max(map(abs, today))):.2f}"
    )


def _rms(errors: Sequence[float]) -> float:
    return math.sqrt(statistics.mean(error**2 for error in errors))


def _constants(console: Console, code: object, fitted: object) -> None:
    """Print each constant in the code next to the value that fits best."""
    for name, value in dataclasses.asdict(fitted).items():  # type: ignore[call-overload]
        console.print(f"  {name}: in the code {getattr(code, name):.4g}, fits best {value:.4g}")


if __name__ == "__main__":
    sys.exit(main())
