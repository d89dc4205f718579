"""Comparison of the variants of a training with their base. Pure.

``python3 -m tests.gpu.variants.judge RESULT.json`` compares an existing result again, on any
machine.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.bench.figures import CLOSE, LN_2
from tests.gpu.bench.table import lined

BOUND = 2e-3
"""Tolerance of a text's log-probability in nats per token, relative to the base."""
COLUMNS = (
    *("variant", "nats/token", "rms", "nats", "reference", "loss", "from ln 2", "implied"),
    *("step 2", "grad norm", "LBL", "rows", "s", "verdict"),
)
Run = Mapping[str, Any]
"""As ``read.run`` returns it, with ``exit``, ``seconds`` and ``own_kernels``."""


def judge(runs: Mapping[str, Run], base: str, pairs: int, beta: float) -> dict[str, Any]:
    """Compare all runs with one.

    Args:
        runs: by name.
        base: name of the run to compare with.
        pairs: number of pairs in the first step.
        beta: of DPO.

    Returns:
        ``passed``, and per variant its figures and the sentences of ``wrong``.
    """
    judged = {name: _variant(run, runs.get(base, {}), pairs, beta) for name, run in runs.items()}
    for name, seen in judged.items():
        if not runs.get(base, {}).get("pairs"):
            seen["wrong"].append(f"{base} has nothing to be compared with")
        seen["explained"] = runs[name].get("own_kernels", "")
    passed = bool(runs) and not any(seen["wrong"] for seen in judged.values())
    return {"passed": passed, "variants": judged}


def _variant(run: Run, base: Run, pairs: int, beta: float) -> dict[str, Any]:
    own, other = run.get("pairs", {}), base.get("pairs", {})
    policy, reference = apart(own, other, 2), apart(own, other, 4)
    rows: Sequence[Mapping[str, float]] = run.get("log", [])
    first = rows[0] if rows else {}
    loss = first.get("loss", math.nan)
    figures = {
        **policy,
        "reference_per_token": reference["per_token"],
        "first_loss": loss,
        "from_ln_2": abs(loss - LN_2),
        "from_implied": abs(loss - implied(own, beta)),
        "second_loss": rows[1]["loss"] if len(rows) > 1 else None,
        "grad_norm": first.get("grad_norm"),
        "load_balancing_loss": first.get("load_balancing_loss"),
        **run.get("experts", {}),
    }
    return {**figures, "wrong": list(_wrong(run, figures, pairs))}


def apart(own: Mapping[str, Sequence[float]], base: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return the differences of the log-probabilities of the same texts.

    Args:
        own: pairs by id, as ``read.Pair``.
        base: the same of the base.
        at: index of the sums of chosen and rejected in a pair: 2 of the policy, 4 of the reference.

    Returns:
        ``per_token``: the largest difference of a text's sum divided by its tokens; their ``rms``;
        ``sum``: the largest difference of a sum, in nats.
    """
    gaps = [
        (abs(own[name][at + side] - base[name][at + side]), own[name][side])
        for name in own.keys() & base.keys()
        for side in (0, 1)
    ]
    if not gaps:
        return {"per_token": math.nan, "rms": math.nan, "sum": math.nan}
    means = [gap / max(tokens, 1) for gap, tokens in gaps]
    return {
        "per_token": _largest(means),
        "rms": math.sqrt(sum(mean**2 for mean in means) / len(means)),
        "sum": _largest([gap for gap, _ in gaps]),
    }


def _largest(values: Sequence[float]) -> float:
    """Return the largest value; NaN if one is NaN, which ``max`` may ignore."""
    return math.nan if any(map(math.isnan, values)) else max(values)


def implied(pairs: Mapping[str, Sequence[float]], beta: float) -> float:
    """Return DPO's loss over pairs (Rafailov et al. 2023, equation 7); NaN without any.

    >>> implied({"a": [1, 1, -5.0, -7.0, -5.0, -7.0]}, 0.1) == math.log(2)
    True
    """
    margins = [beta * ((p[2] - p[4]) - (p[3] - p[5])) for p in pairs.values()]
    losses = [math.log1p(math.exp(-margin)) for margin in margins]
    return sum(losses) / len(losses) if losses else math.nan


def _wrong(run: Run, seen: Mapping[str, Any], pairs: int) -> Iterator[str]:
    if run.get("exit") != 0:
        yield f"it did not end by itself: {run.get('why', '')}, exit {run.get('exit')}"
    if len(run.get("log", [])) < 2:
        yield f"it logged {len(run.get('log', []))} of 2 steps"
    if len(run.get("pairs", {})) != pairs:
        yield f"its first step had {len(run.get('pairs', {}))} of the {pairs} pairs"
    # "not <=": NaN is wrong too
    for name in ("per_token", "reference_per_token"):
        if not seen[name] <= BOUND:
            yield f"{name} {seen[name]:.2e} is over {BOUND:.0e}"
    if not run.get("own_kernels") and not seen["from_ln_2"] <= CLOSE:
        yield f"the first loss {seen['first_loss']:.6f} is not ln 2"
    if not seen["from_implied"] <= CLOSE:
        yield f"the first loss is {seen['from_implied']:.2e} from what its pairs make"
    counts = [run.get("experts", {}).get(name) for name in ("wanted", "chosen", "computed")]
    if not counts[0] or len(set(counts)) > 1:
        yield "experts should get {}, were given {} and worked on {} rows".format(*counts)


def table(judged: Mapping[str, Any], runs: Mapping[str, Run]) -> str:
    """Return one line per variant, and a sentence for each problem or remark."""
    rows = [COLUMNS, *(_row(name, seen, runs[name]) for name, seen in judged.items())]
    wrong = [f"{name}: {each}" for name, seen in judged.items() for each in seen["wrong"]]
    remarks = [
        f"{name}: the first loss is not judged: {seen['explained']}"
        for name, seen in judged.items()
        if seen["explained"]
    ]
    return "\n".join([lined(rows), *remarks, *wrong])


def _row(name: str, seen: Mapping[str, Any], run: Run) -> tuple[str, ...]:
    small = ("per_token", "rms", "sum", "reference_per_token")
    losses = (
        f"{seen['first_loss']:.6f}",
        f"{seen['from_ln_2']:.1e}",
        f"{seen['from_implied']:.1e}",
    )
    rest = (seen["second_loss"], seen["grad_norm"], seen["load_balancing_loss"])
    return (
        name,
        *(f"{seen[each]:.1e}" for each in small),
        *losses,
        *("-" if each is None else f"{each:.5f}" for each in rest),
        str(seen.get("computed", "-")),
        f"{run.get('seconds', 0):.0f}",
        "WRONG" if seen["wrong"] else "explained" if seen["explained"] else "ok",
    )


def main() -> int:
    """Compare an existing result again."""
    record = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = judge(record["runs"], record["base"], record["pairs"], record["beta"])
    print(table(found["variants"], record["runs"]))
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
