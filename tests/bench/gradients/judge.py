"""Verdict over the gradients of one step. Pure.

The error of a gradient is ``|g - e| / |e|`` (Euclidean norms), where ``e`` is upstream's in fp32. A
kind is one weight of all layers and experts, and its error that of all its gradients as one vector.
The spread is what upstream's two bf16 sides show, the larger of their two errors: ``upstream``
sums gradients in bf16 as ours does, over twice as many microbatches, ``kernels`` in fp32. The test,
chosen before the first measurement:

1. all parameters as one vector, and the median over the parameters: at most ``CLOSE`` spreads. Both
   average over rounding errors and near-ties of routers by the hundred, and repeat within a few
   percent;
2. each kind as one vector, and the largest error of a single parameter: at most ``NEAR`` spreads. A
   kind may have few elements (the norms of queries: 256), and a largest value varies more than a
   mean;
3. the exact gradient's share: ``<g, e> / <e, e>`` over all parameters is 1 within ``SCALE`` (or the
   spread, if that is more). Rounding errors are nearly orthogonal to the gradient, so this finds a
   wrong factor of a loss that is too small for the other two.

On CPU, with transformers, 8 pairs and this model's sizes, the errors of two right bf16 sides with
other attention and padding were within 5 % of each other in every kind; a ``beta`` 1.15 times as
large had 29 times their error over all parameters.

Sides named ``ours-...`` have to pass the same test. Sides named ``control`` contain a mistake, a
``beta`` 1.15 times as large or weights by pack, and must fail it.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.gradients import names
from tests.bench.speed.table import lined

EXACT, OURS, KERNELS, CONTROL = "exact", "ours", ("upstream", "kernels"), "control"
CLOSE, NEAR, SCALE = 1.25, 1.5, 0.01
LOSS = 1e-3
"""Relative tolerance of the step's loss."""
ALL, MEDIAN, LARGEST = "all parameters", "median parameter", "largest parameter"
COLUMNS = ("", *KERNELS, OURS, "ours/spread", "at most")
Errors = Mapping[str, Mapping[str, float]]
"""As ``errors.compare`` returns them."""
Run = Mapping[str, Any]


def figures(found: Errors) -> dict[str, float]:
    """Return the errors that are tested: of all, the median, the largest, and of each kind.

    >>> seen = {"decoder.layers.0.a.weight": {"exact": 3.0, "error": 0.3, "along": 3.0},
    ...         "decoder.layers.1.a.weight": {"exact": 4.0, "error": 0.4, "along": 4.0}}
    >>> {name: round(value, 6) for name, value in figures(seen).items()}["a.weight"]
    0.1
    """
    kinds: dict[str, list[Mapping[str, float]]] = {}
    for name, row in found.items():
        kinds.setdefault(names.kind(name), []).append(row)
    single = [_ratio([row]) for row in found.values()]
    return {
        ALL: _ratio(list(found.values())),
        MEDIAN: math.nan if any(map(math.isnan, single)) else statistics.median(single),
        LARGEST: math.nan if any(map(math.isnan, single)) else max(single),
        **{kind: _ratio(of_kind) for kind, of_kind in kinds.items()},
    }


def _ratio(found: Sequence[Mapping[str, float]]) -> float:
    """Return the error of several gradients as one vector; NaN where the exact one is zero."""
    exact = sum(row["exact"] ** 2 for row in found)
    return math.sqrt(sum(row["error"] ** 2 for row in found) / exact) if exact else math.nan


def scale(found: Errors) -> float:
    """Return ``<g, e> / <e, e>`` over all parameters."""
    exact = sum(row["exact"] ** 2 for row in found.values())
    return sum(row["along"] * row["exact"] for row in found.values()) / exact


def broken(side: Errors, spread: Sequence[Errors]) -> list[str]:
    own, others = figures(side), [figures(each) for each in spread]
    wrong = []
    for name, value in own.items():
        most = max(each[name] for each in others)
        # "not <=": NaN is wrong too
        if not value <= bound(name) * most:
            wrong.append(f"{name}: error {value:.2%} is {value / most:.2f} times upstream's")
    room = max([SCALE, *(abs(scale(each) - 1) for each in spread)])
    if not abs(scale(side) - 1) <= room:
        wrong.append(f"it has {scale(side):.4f} of the exact gradient, not 1 within {room:.4f}")
    return wrong


def bound(name: str) -> float:
    """Return how many spreads a figure may have."""
    return CLOSE if name in (ALL, MEDIAN) else NEAR


def judge(runs: Mapping[str, Run], compared: Mapping[str, Errors]) -> dict[str, Any]:
    """Judge all sides.

    ``compared``: errors of the sides whose gradients could be compared.

    Returns:
        ``passed``, ``wrong`` in sentences, the figures and scale of each side, and by control what
        it ``found``.
    """
    wrong = [f"{name}: {why}" for name, run in runs.items() for why in _unusable(name, run, runs)]
    spread = [compared[name] for name in KERNELS if name in compared]
    controls = [name for name in runs if name.startswith(CONTROL)]
    found: dict[str, list[str]] = {}
    if len(spread) < len(KERNELS) or OURS not in compared:
        wrong.append(f"{OURS}, {' and '.join(KERNELS)} are needed for a verdict")
    else:
        own = [name for name in compared if name.startswith(OURS)]
        wrong += [f"{name}: {each}" for name in own for each in broken(compared[name], spread)]
        found = {each: broken(compared[each], spread) for each in controls if each in compared}
        wrong += [f"{each}: its mistake was not found" for each in controls if not found.get(each)]
    sides = {
        name: {"errors": figures(each), "scale": scale(each)} for name, each in compared.items()
    }
    return {"passed": not wrong, "wrong": wrong, "found": found, "sides": sides}


def _unusable(name: str, run: Run, runs: Mapping[str, Run]) -> Iterator[str]:
    if run["ended"] != "exited 0":
        yield f"it did not end by itself: {run['ended']}"
    if run["why"]:
        yield run["why"]
    right = [rank["loss"] for rank in runs.get(EXACT, {"ranks": []})["ranks"]]
    for rank in run["ranks"][:1]:
        wanted = "torch.float32" if name == EXACT else "torch.bfloat16"
        types = ("weights", "gradients") if name == EXACT else ("weights",)
        for each in types:
            if rank[each] != wanted:
                yield f"its {each} are {rank[each]}, not {wanted}"
        if run["kept"] == [] and rank["launchers"]:
            yield f"loaded {rank['launchers'][0]}"
        is_compared = right and (name in KERNELS or name.startswith(OURS))
        if is_compared and not abs(rank["loss"] - right[0]) <= LOSS * right[0]:
            yield f"its loss {rank['loss']:.6f} is not {right[0]:.6f} within {LOSS:.1%}"


def table(judged: Mapping[str, Any]) -> str:
    """Return our errors, upstream's spread, and the verdict."""
    sides, shown = judged["sides"], (*KERNELS, OURS)
    lines: list[tuple[str, ...]] = [COLUMNS]
    if all(name in sides for name in shown):
        for figure in sides[OURS]["errors"]:
            values = [sides[name]["errors"][figure] for name in shown]
            times = values[-1] / max(values[:-1])
            texts = (*(f"{value:.3%}" for value in values), f"{times:.2f}", f"{bound(figure):.2f}")
            lines.append((figure, *texts))
        lines.append(
            ("exact gradient's share", *(f"{sides[name]['scale']:.4f}" for name in shown), "", "")
        )
    found = [f"{name}: {why[0]}" for name, why in judged["found"].items() if why]
    verdict = "passed" if judged["passed"] else "FAILED"
    return "\n".join([lined(lines), *found, *judged["wrong"], verdict])
