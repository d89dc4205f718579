"""Comparison of the sides' runs. Pure.

Compared are pairs of runs with one seed: the same weights, pairs and order of pairs. Each figure's
differences over the seeds are tested for equivalence (``equivalence.py``) with a bound that was
chosen before the measurement. The same is reported for upstream with other kernels (``kernels``),
which is upstream's own spread, for the shipped weights of pairs (``equal-weights``), which are
another loss and need the accuracy only, and for a mistake (``control``), which must not pass. The
prompt once (``prompt-once``) is compared with ``ours``, and its accuracy must be equivalent.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.learning.equivalence import FEWEST, equivalence

OURS, UPSTREAM, KERNELS, EQUAL = "ours", "upstream", "kernels", "equal-weights"
CONTROL, ONCE = "control", "prompt-once"
REQUIRED_ACCURACY = 0.95
SEEDS = 3
"""Fewest seeds with both sides."""
Run = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a run and the largest difference that counts as none."""

    name: str
    bound: float
    is_ratio: bool = True
    """Differences are of logarithms: a bound of 0.05 is 5 %."""

    def of(self, run: Run) -> float:
        logged, after = run["log"], run["after"]
        found: dict[str, float] = {
            "held-out accuracy": after["accuracy"],
            "held-out loss": after["loss"],
            "held-out margin": after["margin"],
            "held-out -log p(chosen)": -after["chosen"],
            "gradient norm": statistics.geometric_mean(logged["grad_norm"]),
            "first loss": logged["loss"][0],
            "first gradient norm": logged["grad_norm"][0],
        }
        return found[self.name]

    def difference(self, one: Run, other: Run) -> float:
        """Return the difference of two runs with one seed; infinite where there is no ratio."""
        a, b = self.of(one), self.of(other)
        if not self.is_ratio:
            return a - b
        return math.log(a / b) if a > 0 and b > 0 else math.inf


FIGURES = (
    # 0.01 is eight of the 835 held-out pairs
    Figure(name="held-out accuracy", bound=0.01, is_ratio=False),
    Figure(name="held-out loss", bound=0.1),
    Figure(name="held-out margin", bound=0.1),
    Figure(name="held-out -log p(chosen)", bound=0.02),
    Figure(name="gradient norm", bound=0.05),
    # before any weight has changed: rounding alone
    Figure(name="first loss", bound=0.001),
    Figure(name="first gradient norm", bound=0.02),
)


def judge(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Compare the sides.

    Args:
        runs: by ``<side>-<seed>``; each has ``side``, ``seed``, ``finished``, ``kept``, and if it
            finished ``log`` (columns of the trainer's log), ``pairs_per_step``, ``loaded`` and
            ``after`` (``score.py``).
    """
    done = {(run["side"], run["seed"]): run for run in runs.values() if run["finished"]}
    tests = {side: compared(done, side) for side in (OURS, KERNELS, EQUAL, CONTROL)}
    tests[ONCE] = compared(done, ONCE, OURS)
    wrong = [*_runs_wrong(runs), *_tests_wrong(tests)]
    return {"passed": not wrong, "wrong": wrong, "tests": tests}


def compared(
    done: Mapping[tuple[str, int], Run], side: str, other: str = UPSTREAM
) -> dict[str, Any]:
    """Return each figure's test of a side against another; empty with fewer than two seeds."""
    seeds = sorted(s for name, s in done if name == side and (other, s) in done)
    if len(seeds) < FEWEST:
        return {}
    found: dict[str, Any] = {}
    for figure in FIGURES:
        apart = [figure.difference(done[side, s], done[other, s]) for s in seeds]
        values = {name: [figure.of(done[name, s]) for s in seeds] for name in (side, other)}
        finite = all(map(math.isfinite, apart))
        test = equivalence(apart, figure.bound) if finite else {"equivalent": False}
        found[figure.name] = {"seeds": seeds, **values, **test}
    return found


def _runs_wrong(runs: Mapping[str, Run]) -> list[str]:
    wrong = [f"{name}: {run['ended']}" for name, run in runs.items() if not run["finished"]]
    for name, run in runs.items():
        accuracy = run["after"]["accuracy"] if run["finished"] else 1.0
        if run["side"] in (OURS, UPSTREAM, EQUAL, ONCE) and accuracy < REQUIRED_ACCURACY:
            wrong.append(f"{name}: held-out accuracy {accuracy:.3f} is below {REQUIRED_ACCURACY}")
        if run["finished"] and run["kept"] == [] and run["loaded"]:
            wrong.append(f"{name}: loaded {', '.join(run['loaded'])}")
    for name, run in runs.items():
        other = runs.get(f"{UPSTREAM}-{run['seed']}")
        if other is None or run["side"] == ONCE or not (run["finished"] and other["finished"]):
            continue
        if run["pairs_per_step"] != other["pairs_per_step"]:
            wrong.append(f"{name}: steps have other pairs than {UPSTREAM}-{run['seed']}")
    return wrong


def _tests_wrong(tests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    once = tests[ONCE]
    if once and not tests[OURS]:  # a run of these two sides alone
        return _once_wrong(once)
    ours = tests[OURS]
    if not ours or min(test["count"] for test in ours.values() if "count" in test) < SEEDS:
        return [f"fewer than {SEEDS} seeds have {OURS} and {UPSTREAM}"]
    wrong = [f"{name}: not equivalent" for name, test in ours.items() if not test["equivalent"]]
    control = tests[CONTROL]
    if control and all(test["equivalent"] for test in control.values()):
        wrong.append("the control's mistake was not found: the comparison proves nothing")
    return wrong + (_once_wrong(once) if once else [])


def _once_wrong(tests: Mapping[str, Any]) -> list[str]:
    """Judge the prompt once by its accuracy: its packs hold more pairs, so its steps differ."""
    accuracy = tests[FIGURES[0].name]
    if len(accuracy["seeds"]) < SEEDS:
        return [f"fewer than {SEEDS} seeds have {OURS} and {ONCE}"]
    wrong = f"{ONCE}: {FIGURES[0].name}: not equivalent to {OURS}"
    return [] if accuracy["equivalent"] else [wrong]


def table(found: Mapping[str, Any]) -> str:
    """Return the tests as text, a line for each figure and side."""
    lines = []
    for side, tests in found["tests"].items():
        for name, test in tests.items():
            if "count" not in test:
                lines.append(f"{side:14}{name:25} has no ratio")
                continue
            span = f"{test['low']:+.5f} to {test['high']:+.5f}"
            said = "equivalent" if test["equivalent"] else "DIFFERENT"
            lines.append(
                f"{side:14}{name:25} {test['mean']:+.5f} ({span}) within {test['bound']:.3f}: "
                f"{said}, {test['count']} seeds"
            )
    return "\n".join([*lines, *found["wrong"], "passed" if found["passed"] else "FAILED"])
