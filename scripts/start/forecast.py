"""When waiting runs start, from the documents of Kueue. Pure.

The ends of other runs are known to a degree only: their own estimate, what runs of these queues
used of their time limits, the limit alone, or nothing. The simulation is repeated with ends drawn
from what is known. What is not known is taken once as over at once and once as never over, so that
it widens the interval.
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice

from scripts.doctor.api import Object
from scripts.plan.units import time_text
from scripts.start.gangs import Gang, Shape, gang_of, shares_used
from scripts.start.quota import Queue, Room, queues_of, thousandths
from scripts.start.simulation import Simulation

DRAWS = (4, 40)
"""Fewest and most repetitions; fewer with many gangs."""
WORK = 6000
"""Gangs that all repetitions together simulate, as far as `DRAWS` allows."""
ENOUGH = 5
"""Runs from which the share of the time limit that runs use is known: ended ones, and those that
estimate their own end."""
OWN_ESTIMATE = (0.9, 1.25)
"""Bounds of the time left, as shares of a run's own estimate: that leaves out saves and export."""
MARGIN = 0.1
"""By which share of the wait the interval is wider than what was drawn."""
TAIL = 0.05
"""Share of the draws outside the interval on either side."""
NAMED = 3
"""Runs that a reason names."""
SOON = 60.0
"""Seconds; an earliest start within them says nothing."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Documents that may be read; None: they may not."""

    cluster_queues: Sequence[Object]
    cohorts: Sequence[Object] = ()
    flavors: Sequence[Object] = ()
    local_queues: Sequence[Object] = ()
    workloads: Sequence[Object] = ()
    is_all: bool = True
    """Workloads and LocalQueues of all namespaces were read."""
    left: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a run has left by its own estimate, by the Workload's uid."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Seconds that other limits than Kueue's leave a run, by the Workload's uid."""
    space: str = ""
    """Namespace that names of runs leave out."""

    @cached_property
    def entrances(self) -> dict[tuple[object, object], str]:
        """Return the ClusterQueue by namespace and LocalQueue."""
        metas = ((each["metadata"], each.get("spec") or {}) for each in self.local_queues)
        return {
            (meta.get("namespace"), meta["name"]): str(spec.get("clusterQueue") or "")
            for meta, spec in metas
        }

    def queue_of(self, workload: Object) -> str:
        """Return the ClusterQueue of a Workload; empty if it is not known."""
        admission: Object = (workload.get("status") or {}).get("admission") or {}
        name = (workload.get("spec") or {}).get("queueName")
        asked = self.entrances.get((workload["metadata"].get("namespace"), name))
        return str(admission.get("clusterQueue") or asked or "")


@dataclass(frozen=True, kw_only=True)
class Start:
    """When a run starts: Unix times by the API server's clock; None: there is no such time."""

    earliest: float | None = None
    expected: float | None = None
    latest: float | None = None
    reasons: tuple[str, ...] = ()
    """What is not known, in sentences."""
    sentence: str = ""


def forecast(known: Known, targets: Collection[str], now: float) -> dict[str, Start]:
    """Return when waiting Workloads start, by uid; one that is not in a known queue is left out.

    ``targets`` are uids of Workloads; the documents were read at ``now`` (Unix time).

    Raises:
        Problem: a quantity of a document is none.
    """
    queues = queues_of(known.cluster_queues, known.cohorts)
    gangs = _gangs(known, queues)
    wanted = [
        each
        for each in gangs
        if each.id in targets and each.held is None and each.shape and queues[each.queue].groups
    ]
    roots = {queues[each.queue].node.root for each in wanted}
    near = {name: each for name, each in queues.items() if each.node.root in roots}
    inside = [each for each in gangs if each.queue in near]
    hidden, why_hidden = ([], "") if known.is_all else _hidden(near, inside)
    ended = [each for each in known.workloads if known.queue_of(each) in near]
    estimates = [
        min(1.0, (each.ran_by(now) + known.left[each.id]) / each.limit)
        for each in inside
        if each.limit and each.id in known.left
    ]
    draws = _Draws(known=known, now=now, shares=sorted([*shares_used(ended), *estimates]))
    made = Simulation(queues=near, gangs=[*inside, *hidden], now=now)
    early, late = draws.starts(made, {each.id for each in wanted})
    vague = draws.vague(made.gangs)
    found = {}
    for gang in wanted:
        reasons = [why_hidden] if why_hidden else []
        if queues[gang.queue].checks:
            reasons.append(f"ClusterQueue {gang.queue} has admission checks after the quota")
        is_open = bool(reasons)
        if early[gang.id] != late[gang.id]:
            reasons += draws.unknown(vague, gang, queues[gang.queue])
        times = _interval(early[gang.id], late[gang.id])
        found[gang.id] = _start(times, reasons, now, is_open=is_open)
    return found


def _follows(other: Gang, gang: Gang, queue: Queue) -> bool:
    """Return whether a waiting gang never starts before another one of its queue."""
    waits = other.held is None and other.queue == gang.queue and other.order >= gang.order
    return waits and (queue.strict or other.shape == gang.shape)


@dataclass(kw_only=True)
class _Draws:
    known: Known
    now: float
    shares: list[float]

    def starts(
        self, made: Simulation, ids: Collection[str]
    ) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Return the drawn starts of each target: with unknown ends now, and never."""
        count = max(DRAWS[0], min(DRAWS[1], WORK // (1 + len(made.gangs))))
        chance = random.Random(0)  # the same documents give the same answer
        early: dict[str, list[float]] = {each: [] for each in ids}
        late: dict[str, list[float]] = {each: [] for each in ids}
        is_known = not any(each.gangs for each in self.vague(made.gangs))
        for _ in range(count):
            # Few ended runs say little about the others: the shares are resampled, too.
            shares = sorted(chance.choices(self.shares, k=len(self.shares))) if self.shares else []
            ends = {each.id: self.seconds(each, chance, shares) for each in made.gangs}
            found = made.run({id: most for id, (_, most) in ends.items()}, ids)
            for each in ids:
                late[each].append(found.get(each, math.inf))
            if not is_known:
                found = made.run({id: least for id, (least, _) in ends.items()}, ids)
            for each in ids:
                early[each].append(found.get(each, math.inf))
        return early, late

    def seconds(
        self, gang: Gang, chance: random.Random, shares: list[float]
    ) -> tuple[float, float]:
        """Return how long a gang still runs at least and at most, in one draw."""
        if (left := self.known.left.get(gang.id)) is not None:
            drawn = left * chance.triangular(*OWN_ESTIMATE, 1.0)
            return drawn, drawn
        ran, limit = gang.ran_by(self.now), gang.limit
        if (other := self.known.limits.get(gang.id)) is not None:
            limit = min(limit or math.inf, ran + other)
        if limit is None:
            return 0.0, math.inf
        if len(shares) < ENOUGH:
            return 0.0, max(0.0, limit - ran)
        longer = [each for each in shares if each * limit > ran] or [1.0]
        drawn = max(0.0, chance.choice(longer) * limit - ran)
        return drawn, drawn

    def vague(self, gangs: Iterable[Gang]) -> tuple[_Vague, _Vague]:
        """Return the gangs without a known end: those without a time limit, and the others."""
        left, limits = self.known.left, self.known.limits
        found = [each for each in gangs if each.id not in left]
        endless = [e for e in found if e.limit is None and e.id not in limits]
        ids = {each.id for each in endless}
        bounded = [e for e in found if e.id not in ids] if len(self.shares) < ENOUGH else []
        return _Vague(endless), _Vague(bounded)

    def unknown(self, vague: tuple[_Vague, _Vague], gang: Gang, queue: Queue) -> list[str]:
        """Return the ends that are not known and that a start may depend on, in sentences."""
        endless, bounded = (each.names(gang, queue, self.known.space) for each in vague)
        found = []
        if endless:
            found.append(f"the end of {endless} is not known (no time limit)")
        if bounded:
            found.append(f"only the time limit is known of {bounded}")
        return found


class _Vague:
    """Gangs of the same knowledge, in the order in which they are named; read for each target."""

    def __init__(self, gangs: Iterable[Gang]) -> None:
        self.gangs = sorted(gangs, key=lambda each: (each.held is None, each.order))
        self._lines: dict[tuple[str, Shape | None], list[tuple[int, float, str]]] = {}
        for each in self.gangs:
            if each.held is None:
                for shape in (None, each.shape):
                    self._lines.setdefault((each.queue, shape), []).append(each.order)

    def names(self, gang: Gang, queue: Queue, space: str) -> str:
        """Return the first names of those that do not follow a gang, and the number of others."""
        line = self._lines.get((gang.queue, None if queue.strict else gang.shape), [])
        count = len(self.gangs) - len(line) + bisect_left(line, gang.order)
        first = islice((e for e in self.gangs if not _follows(e, gang, queue)), min(NAMED, count))
        more = f" and {count - NAMED} more" if count > NAMED else ""
        return ", ".join(each.name.removeprefix(f"{space}/") for each in first) + more


def _gangs(known: Known, queues: Mapping[str, Queue]) -> list[Gang]:
    flavors = {each["metadata"]["name"]: each.get("spec") or {} for each in known.flavors}
    found = []
    for each in known.workloads:
        if (queue := queues.get(known.queue_of(each))) is None:
            continue
        gang = gang_of(each, queue, flavors)
        stopped = ((queue.document.get("spec") or {}).get("stopPolicy") or "None") != "None"
        if gang and (gang.held is not None or not stopped):
            found.append(gang)
    return found


def _hidden(queues: Mapping[str, Queue], seen: Iterable[Gang]) -> tuple[list[Gang], str]:
    """Return what runs that may not be read hold by the status of the queues, and a sentence."""
    found, waiting = [], 0
    gangs = list(seen)
    for queue in queues.values():
        status: Object = queue.document.get("status") or {}
        held: dict[Room, int] = {}
        for flavor in status.get("flavorsReservation") or []:
            for each in flavor.get("resources") or []:
                held[flavor["name"], each["name"]] = thousandths(each.get("total") or 0)
        own = [each for each in gangs if each.queue == queue.name]
        for gang in own:
            for room, amount in (gang.held or {}).items():
                held[room] = held.get(room, 0) - amount
        waiting += int(status.get("pendingWorkloads") or 0) - sum(g.held is None for g in own)
        held = {room: amount for room, amount in held.items() if amount > 0}
        if held:
            gang = Gang(
                id=f"hidden/{queue.name}",
                name="a run of another namespace",
                queue=queue.name,
                priority=0,
                queued=0.0,
                shape=(),
                held=held,
            )
            found.append(gang)
    more = f", and {waiting} wait" if waiting > 0 else ""
    holding = "hold quota" if found else "hold no quota"
    if not found and waiting <= 0:
        return [], ""
    return found, f"runs of other namespaces, which you may not read, {holding}{more}"


def _interval(early: Sequence[float], late: Sequence[float]) -> tuple[float, float, float]:
    """Return earliest, expected and latest start in seconds from now; infinite for never.

    Runs of which only the limit is known are expected to use two thirds of it: starts are nearly
    proportional to durations, and of runs that use half to all that errs by a third at most.
    """
    first, last = sorted(early), sorted(late)
    skipped = int(TAIL * len(first))
    middle = (statistics.median_low(first) + 2 * statistics.median_low(last)) / 3
    return first[skipped] * (1 - MARGIN), middle, last[-1 - skipped] * (1 + MARGIN)


def _start(
    times: tuple[float, float, float], reasons: Sequence[str], now: float, *, is_open: bool
) -> Start:
    earliest, expected, latest = (None if math.isinf(each) else now + each for each in times)
    if earliest is None:
        never = "with the quotas as they are it does not fit, also when all other runs have ended"
        return no_start(never)
    latest = None if is_open else latest
    said = "; ".join([_sentence(earliest, expected, latest, now), *reasons])
    return Start(
        earliest=earliest,
        expected=expected,
        latest=latest,
        reasons=tuple(reasons),
        sentence=f"{said}.",
    )


def no_start(why: str) -> Start:
    """Return that no start is predicted, and why."""
    return Start(reasons=(why,), sentence=f"No start is predicted: {why}.")


def _sentence(earliest: float, expected: float | None, latest: float | None, now: float) -> str:
    """Return the times in words.

    >>> _sentence(6000.0, 6600.0, 9000.0, 3000.0)
    'Starts about 01:50 (01:40 to 02:30) UTC, in 60 min'
    >>> _sentence(3000.0, 3000.0, 3000.0, 3000.0)
    'Starts now: its quota is free'
    >>> _sentence(6000.0, None, None, 3000.0), _sentence(3000.0, None, None, 3000.0)
    ('Starts not before 01:40 UTC; when is not known', 'When it starts is not known')
    """
    if latest is not None and latest - now < 1:
        return "Starts now: its quota is free"
    if expected is None:
        soon = earliest - now < SOON
        begin = "When it starts" if soon else f"Starts not before {clock(earliest, now)} UTC; when"
        return f"{begin} is not known"
    to = f"to {clock(latest, now)}" if latest is not None else "or later, without a latest time"
    about = f"Starts about {clock(expected, now)} ({clock(earliest, now)} {to}) UTC"
    return f"{about}, in {time_text(max(0.0, expected - now))}"


def clock(when: float, now: float) -> str:
    """Return a time of day, with the date if it is another day's.

    >>> clock(3600.0, 0.0), clock(90000.0, 0.0)
    ('01:00', 'Jan 02 01:00')
    """
    time, today = datetime.fromtimestamp(when, UTC), datetime.fromtimestamp(now, UTC)
    return f"{time:%H:%M}" if time.date() == today.date() else f"{time:%b %d %H:%M}"
