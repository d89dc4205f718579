"""Text tables of the bench's results, and the speed-up of one run over another."""

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = (
    "run",
    "steps",
    "s/step",
    "p95",
    "±MAD",
    "tok/s/GPU",
    "overall",
    "pairs/s",
    "J/pair",
    "one epoch",
    "MFU",
    "GiB",
    "LBL",
    "loss",
    "end",
)
"""``overall``: all tokens over all seconds; ``pairs/s``: all pairs over them; ``J/pair``: of the
GPUs; ``one epoch``: tokens with the reference's pass."""


def table(runs: Mapping[str, Mapping[str, Any]]) -> str:
    return lined([COLUMNS, *(_row(name, run) for name, run in runs.items())])


def lined(rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first left, the others right.

    >>> print(lined([("a", "b"), ("long", "1.0")]))
    a       b
    long  1.0
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(name: str, run: Mapping[str, Any]) -> tuple[str, ...]:
    end = "ok" if run.get("finished") else "out of memory" if run.get("out_of_memory") else ""
    end = end or str(run.get("skipped") or run.get("ended"))
    loss = run.get("first_loss", {}).get("first")
    first = "-" if loss is None else f"{loss:.6f}{'' if run['first_loss']['ok'] else ' WRONG'}"
    if not run.get("steps"):
        return (name, "0", *("-" * 9), _number(run.get("reserved_gib"), 1), "-", first, end)
    seconds, rate = run["seconds"], run["tokens_per_second_per_gpu"]
    return (
        name,
        str(run["steps"]),
        f"{seconds['median']:.3f}",
        f"{seconds['p95']:.3f}",
        f"{seconds['mad']:.3f}",
        f"{rate['median']:.0f}",
        _number(run.get("overall", {}).get("tokens_per_second_per_gpu"), 0),
        _number(run.get("overall", {}).get("pairs_per_second"), 2),
        _number(joules_per_pair(run), 1),
        _number((run.get("reference_pass") or {}).get("over_one_epoch"), 0),
        f"{run['mfu']:.1%}",
        f"{run['reserved_gib']:.1f}",
        _number(run.get("load_balancing_loss"), 3),
        first,
        end,
    )


def joules_per_pair(run: Mapping[str, Any]) -> float | None:
    """Return the energy of all GPUs over the measured steps, divided by their pairs.

    >>> joules_per_pair({"world": 2, "gpu": {"samples": 9, "watts": 600.0},
    ...                  "overall": {"pairs_per_second": 8.0}})
    150.0
    >>> joules_per_pair({"gpu": {"watts": 600.0}})  # older results: not of the measured steps
    """
    gpu = run.get("gpu") or {}
    if not gpu.get("samples"):
        return None
    pairs: float = run["overall"]["pairs_per_second"]
    joules: float = run["world"] * gpu["watts"] / pairs
    return round(joules, 1)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the speed-up over another run, with bounds from the MADs.

    >>> rate = lambda middle, mad: {"tokens_per_second_per_gpu": {"median": middle, "mad": mad}}
    >>> ratio(rate(200.0, 10.0), rate(100.0, 5.0))
    {'times': 2.0, 'low': 1.8095, 'high': 2.2105}
    """
    if any("tokens_per_second_per_gpu" not in run for run in (one, other)):
        return None
    a, b = (run["tokens_per_second_per_gpu"] for run in (one, other))
    return {
        "times": round(a["median"] / b["median"], 4),
        "low": round((a["median"] - a["mad"]) / (b["median"] + b["mad"]), 4),
        "high": round((a["median"] + a["mad"]) / (b["median"] - b["mad"]), 4),
    }


def pairs_ratio(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """Return the ratio of the pairs per second of two runs over all pairs of their data.

    The steps that are measured have other pairs if one run computes prompts once: of a few hundred
    pairs the mean length differs by 4 %. So it is the ratio of all tokens over all seconds, over
    that of a pair's tokens.

    >>> run = lambda rate, **kw: {"overall": {"tokens_per_second_per_gpu": rate}, **kw}
    >>> pairs_ratio(run(90.0, left_out=0.25), run(100.0, left_out=0.0)), pairs_ratio({}, {})
    (1.2, None)
    """
    if any("left_out" not in run or not run.get("overall") for run in (one, other)):
        return None
    rates = [run["overall"]["tokens_per_second_per_gpu"] for run in (one, other)]
    times: float = rates[0] / rates[1] * (1 - other["left_out"]) / (1 - one["left_out"])
    return round(times, 4)


def comparison(runs: Mapping[str, Mapping[str, Any]], against: str) -> str:
    """Return one line per run: its speed-up over one of them."""
    lines = []
    for name, run in runs.items():
        found = None if name == against else ratio(run, runs[against])
        if found is not None:
            span = f"{found['low']:.2f} to {found['high']:.2f}"
            pairs = pairs_ratio(run, runs[against])
            more = "" if pairs is None else f", {pairs:.3f} x pairs/s over the same pairs"
            lines.append(f"{name} / {against}: {found['times']:.2f} x tok/s/GPU ({span}){more}")
    return "\n".join(lines)


def kernels(runs: Mapping[str, Mapping[str, Any]], most: int = 12) -> str:
    """Return sums, longest kernels and longest idle times of each run's traced step, rank 0."""
    lines = []
    for name, run in runs.items():
        for found in [each for each in run.get("kernels", ())[:1] if each["kernels"]]:
            sums = ", ".join(f"{key} {found[key]:.0f}" for key in found if key.endswith("_ms"))
            lines.append(f"{name}: {sums}, {found['kernels']} kernels")
            lines += [
                f"{ms:10.2f} ms in {n:6d} {what} {kernel}"
                for part, what in (("top", "of"), ("idle", "idle before"))
                for kernel, ms, n in found.get(part, ())[:most]
            ]
    return "\n".join(lines)
