"""Comparison of runs with an online and with a precomputed reference."""

from __future__ import annotations

from typing import Any

PAIRS, STEPS, SAVED = 30, 6, 3
"""Number of pairs, steps of a run, and the step of its first checkpoint."""
BOUND, RELATIVE = 1e-3, 1e-6
"""Tolerance of a loss or a log-probability; relative for long texts: in bf16 the sum depends on the
packs that share a rank's experts, under ms-swift's own reference as well."""
Values = dict[str, list[list[float]]]
"""Log-probabilities of chosen and rejected by pair, one entry per occurrence."""


def judge(seen: dict[str, Any]) -> dict[str, Any]:
    """Compare the runs."""
    online, own = seen["online"]["logps"], seen["own"]["logps"]
    shared = online.keys() & own.keys()
    losses = {name: [row["loss"] for row in run["log"]] for name, run in seen.items()}
    after = losses["resumed"][SAVED - STEPS :]  # the resumed run appends to the same log
    found: dict[str, Any] = {
        "pairs": len(shared),
        "logps_apart": apart(online, own),
        "logps_apart_of_bound": apart(online, own, scaled=True),
        "online_logps_apart_between_epochs": apart(online, online),
        "largest_logp": max((abs(v) for n in shared for v in own[n][0]), default=0.0),
        "losses_apart": furthest(losses["online"], losses["own"], STEPS),
        "resumed_apart": furthest(losses["online"][SAVED:], after, STEPS - SAVED),
        "losses": losses,
        "memory_gib": {n: [r.get("memory(GiB)") for r in run["log"]] for n, run in seen.items()},
        "exits": {name: run["exit"] for name, run in seen.items()},
        "from": {name: run["reference"].get("from") for name, run in seen.items()},
        "lost": seen["lost"]["errors"],
    }
    trained = [seen[name]["exit"] == 0 for name in ("online", "own", "resumed", "again")]
    close = max(found["losses_apart"], found["resumed_apart"]) <= BOUND
    sources = found["from"]["own"] == "pass" and found["from"]["again"] == "store"
    refused = seen["lost"]["exit"] != 0 and any(
        "recipe.reference: precomputed, but" in e for e in found["lost"]
    )
    complete = all(trained) and sources and refused and len(shared) > PAIRS // 2
    found["passed"] = complete and close and found["logps_apart_of_bound"] <= 1
    return found


def apart(one: Values, other: Values, *, scaled: bool = False) -> float:
    """Return the largest difference of a pair's values, in nats or relative to the bound."""
    both = (zip(x, y, strict=True) for n in one for x in one[n] for y in other.get(n, ()))
    gaps = [(abs(a - b), max(BOUND, RELATIVE * abs(a))) for pair in both for a, b in pair]
    return max((gap / bound if scaled else gap for gap, bound in gaps), default=1e9)


def furthest(one: list[float], other: list[float], count: int) -> float:
    """Return the largest difference of two lists of losses; a huge value if one is too short."""
    if len(one) < count or len(other) < count:
        return 1e9
    return max(abs(a - b) for a, b in zip(one, other, strict=False))
