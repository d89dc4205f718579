"""Assignment of a start's steps to states. Pure; used by the callback and the reader."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from tests.gpu.ablation.plan import AGAIN, END, Choice, Segment, State, Variant, over


@dataclass(frozen=True, kw_only=True)
class Count:
    """Number of steps of a segment."""

    steps: int
    warm_up: int
    """Unmeasured steps after a switch: memory is reallocated, kernels are compiled."""
    first: int
    """The same at the start of training."""


def lay_out(choice: Choice, count: Count) -> list[Segment]:
    """Return the segments in order: timed ones, profiled ones, and a final step.

    >>> one, base = Variant(name="a"), Variant(name="baseline")
    >>> choice = Choice(baseline=base, variants=(one,), starts=())
    >>> [(s.name, s.first, s.last) for s in lay_out(choice, Count(steps=2, warm_up=1, first=3))]
    [('baseline', 1, 5), ('a', 6, 8), ('baseline again', 9, 11), ('end', 12, 12)]
    """
    nothing: State = {}
    timed = [(choice.baseline, nothing)]
    timed += zip(choice.variants, _states(choice.variants), strict=True)
    last = dataclasses.replace(choice.baseline, name=AGAIN)
    again = [(last, nothing)] if choice.variants else []
    rows = [
        (each.name, "time", state, each.warm_up or count.warm_up, each.steps or count.steps)
        for each, state in (*timed, *again)
    ]
    rows[0] = (*rows[0][:3], count.first, rows[0][4])
    for role in ("profile", "trace"):
        rows += [(each.name, role, state, 1, 1) for each, state in timed if getattr(each, role)]
    rows.append((END, "end", {}, 0, 1))
    segments: list[Segment] = []
    for name, role, state, warm_up, steps in rows:
        first = segments[-1].last + 1 if segments else 1
        segments.append(
            Segment(name=name, role=role, state=state, first=first, warm_up=warm_up, steps=steps)
        )
    return segments


def _states(variants: Sequence[Variant]) -> list[State]:
    """Return each variant's complete state: its own on top of the kept ones before it."""
    kept: State = {}
    states: list[State] = []
    for variant in variants:
        states.append(over(kept, variant.state))
        kept = states[-1] if variant.keep else kept
    return states


def after(choice: Choice, failed: str) -> Choice:
    """Return the variants after one that ended a start; states kept before it stay.

    >>> a, b, c, base = (Variant(name=name) for name in ("a", "b", "c", "baseline"))
    >>> a = dataclasses.replace(a, keep=True, state={"gc": "off"})
    >>> left = after(Choice(baseline=base, variants=(a, b, c), starts=()), "b")
    >>> [(v.name, v.state) for v in left.variants]
    [('c', {'gc': 'off'})]
    """
    names = [variant.name for variant in choice.variants]
    at = names.index(failed) + 1 if failed in names else len(names)
    kept: State = {}
    for variant in choice.variants[: at - 1]:
        kept = over(kept, variant.state) if variant.keep else kept
    left = choice.variants[at:]
    return dataclasses.replace(
        choice, variants=tuple(dataclasses.replace(v, state=over(kept, v.state)) for v in left)
    )


def write(segments: Sequence[Segment]) -> str:
    """Serialize segments for an environment variable."""
    return json.dumps([dataclasses.asdict(segment) for segment in segments])


def parse(text: str) -> list[Segment]:
    """Parse the output of ``write``.

    >>> one = Segment(name="a", role="time", state={}, first=1, warm_up=0, steps=1)
    >>> parse(write([one])) == [one]
    True
    """
    return [Segment(**each) for each in json.loads(text)]
