"""Whether runs with a reference in every step and with one taken once were the same."""

from __future__ import annotations

from typing import Any

PAIRS, STEPS, SAVED = 30, 6, 3
"""Pairs of the data, steps of a run, and the step of its first checkpoint."""
BOUND = 1e-3
"""Of the difference of a log-probability, in nats, and of a loss."""


def judge(seen: dict[str, Any]) -> dict[str, Any]:
    """Compare the runs."""
    online, own = seen["online"]["logps"], seen["own"]["logps"]
    shared = online.keys() & own.keys()
    apart = [abs(a - b) for n in shared for a, b in zip(online[n], own[n], strict=True)]
    losses = {name: [row["loss"] for row in run["log"]] for name, run in seen.items()}
    gap = [abs(a - b) for a, b in zip(losses["online"], losses["own"], strict=False)]
    tail = losses["online"][SAVED:]
    after = [abs(a - b) for a, b in zip(losses["resumed"][-len(tail) :], tail, strict=False)]
    found = {
        "pairs": len(shared),
        "logps_apart": max(apart, default=1.0),
        "largest_logp": max((abs(v) for n in shared for v in own[n]), default=0.0),
        "losses_apart": max(gap, default=1.0),
        "resumed_apart": max(after, default=1.0),
        "losses": losses,
        "memory_gib": {n: [r.get("memory(GiB)") for r in run["log"]] for n, run in seen.items()},
        "exits": {name: run["exit"] for name, run in seen.items()},
        "from": {name: run["reference"].get("from") for name, run in seen.items()},
        "lost": seen["lost"]["errors"],
    }
    trained = [seen[name]["exit"] == 0 for name in ("online", "own", "resumed", "again")]
    close = max(found["logps_apart"], found["losses_apart"], found["resumed_apart"]) <= BOUND
    whole = len(shared) > PAIRS // 2 and len(gap) == STEPS and len(tail) == STEPS - SAVED
    sources = found["from"]["own"] == "pass" and found["from"]["again"] == "store"
    refused = seen["lost"]["exit"] != 0 and any("ReferenceConfigError" in e for e in found["lost"])
    found["passed"] = all(trained) and close and whole and sources and refused
    return found
