"""Breakdown of a run's time, from its first start to the launcher's last record of training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scripts.report.record import Attempt, RunRecord

Kind = Literal["waited", "started", "trained", "between", "lost", "after"]
KINDS: Mapping[Kind, str] = {
    "trained": "training steps that count",
    "between": "evaluating, saving and logging between steps",
    "started": "starting: from the training processes to the first step",
    "waited": "before an attempt: queue, pods, stages, gang; after one also its last save",
    "lost": "lost: steps that a later attempt trained again",
    "after": "after the last step: its save, until the launcher's last record of training",
}
SHORT: Mapping[Kind, str] = {
    "trained": "trained", "between": "evaluated, saved", "started": "started", "waited": "waited",
    "lost": "lost", "after": "after the last step",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of an attempt; times in seconds since the begin of the timeline."""

    attempt: int
    kind: Kind
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Return its duration."""
        return self.end - self.begin


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """All attempts of a run."""

    began: float
    """Unix time."""
    seconds: float
    spans: Sequence[Span]
    totals: Mapping[Kind, float]
    """Seconds by kind; they sum up to ``seconds``."""

    def share(self, kind: Kind) -> float:
        """Return the fraction of the time that a kind takes."""
        return self.totals.get(kind, 0.0) / self.seconds if self.seconds else 0.0


def build(run: RunRecord) -> Timeline | None:
    """Return the timeline; None without a step or a start.

    The trained time of an attempt is drawn as one span with what is between its steps; the totals
    separate them.
    """
    starts = [a.began or a.trained_from for a in run.attempts]
    known = [when for when in (run.started, *starts) if when is not None]
    if not known or all(a.trained_until is None for a in run.attempts):
        return None
    began = min(known)
    spans: list[Span] = []
    at = began
    for attempt in run.attempts:
        for span in _spans(attempt, at, began):
            spans.append(span)
            at = began + span.end
    kept = sum(a.kept_seconds for a in run.attempts)
    recorded = _recorded(run, kept)
    if recorded is not None and recorded > at:
        last = run.attempts[-1].number
        spans.append(Span(attempt=last, kind="after", begin=at - began, end=recorded - began))
        at = recorded
    always: list[Kind] = [kind for kind in KINDS if kind != "after"]
    totals: dict[Kind, float] = dict.fromkeys(always, 0.0)
    for span in spans:
        totals[span.kind] = totals.get(span.kind, 0.0) + span.seconds
    counted = min(totals["trained"], kept)
    totals["between"] += totals["trained"] - counted
    totals["trained"] = counted
    return Timeline(began=began, seconds=at - began, spans=spans, totals=totals)


def _recorded(run: RunRecord, kept: float) -> float | None:
    """Return when the launcher computed its goodput (``launchers/progress/training.py``).

    That is the seconds of steps that count over the time since the first start. With this moment
    as the end of the timeline the trained share is the number that `megatron-dpo status` shows.
    """
    found = run.training.get("goodput")
    if not isinstance(found, int | float) or not 0 < found <= 1 or run.started is None:
        return None
    return run.started + kept / found


def effective(run: RunRecord) -> float | None:
    """Return the effective training time: the trained share of the timeline; None without one.

    It is the launcher's number, unless the run was killed before the launcher read its last steps.
    """
    timeline = build(run)
    return timeline.share("trained") if timeline else None


def _spans(attempt: Attempt, at: float, began: float) -> Iterator[Span]:
    """Yield the spans of an attempt from ``at``, the end of the one before (Unix time)."""
    ends: list[tuple[Kind, float | None]] = [
        ("waited", attempt.began or attempt.trained_from),
        ("started", attempt.trained_from),
        ("trained", attempt.kept_until if attempt.lost_steps else attempt.trained_until),
        ("lost", attempt.trained_until if attempt.lost_steps else None),
    ]
    for kind, until in ends:
        # Clocks of nodes may differ by some milliseconds: a span never begins before the last end.
        if until is not None and until > at:
            yield Span(attempt=attempt.number, kind=kind, begin=at - began, end=until - began)
            at = until
