"""Kueue's admission as a simulation of events: which gang starts when, if each runs for a time.

It has order, quota, cohorts, flavors and classical preemption; it has no fair sharing, topology or
admission checks, and no runs that are submitted later. Sources: `pkg/scheduler/scheduler.go`,
`pkg/scheduler/flavorassigner`, `pkg/scheduler/preemption` of kubernetes-sigs/kueue.
"""

import heapq
import math
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scripts.start.gangs import Gang, Shape
from scripts.start.quota import Queue, Room, Usage

BATCH_SECONDS = 1.0
"""From the first end of a gang to the next look at the queue (`requeueBatchPeriod` in
`pkg/cache/queue/inadmissible_workloads.go`): what ends within it is free at the same time."""
ROUNDS = 4
"""Times that the queues are looked through at one moment: preemption changes what fits."""
Heads = list[tuple[tuple[int, float, str], int, list[Gang]]]
"""Lines of gangs of one shape and priority, a heap by the order of their first ones."""
Head = tuple[Queue, Heads, Usage | None]
"""A queue with its lines, and what its first gang would use; None if that does not fit."""
Wanted = list[tuple[list[tuple[str, int]], list[str]]]
"""Amounts that are assigned together, and the flavors that may take them."""


@dataclass(kw_only=True)
class _Run:
    gang: Gang
    usage: Usage
    began: float
    ends: float


@dataclass(kw_only=True)
class Simulation:
    """The gangs of some queues from one moment on; `run` may be called many times."""

    queues: Mapping[str, Queue]
    gangs: Collection[Gang]
    now: float
    _wanted: dict[tuple[str, Shape], Wanted] = field(default_factory=dict)
    _first: dict[tuple[str, Shape], Usage] = field(default_factory=dict)
    _time: float = 0.0
    _left: dict[str, float] = field(default_factory=dict)
    _running: dict[str, _Run] = field(default_factory=dict)
    _priorities: dict[str, Counter[int]] = field(default_factory=dict)
    _waiting: dict[str, dict[tuple[Shape, int], list[Gang]]] = field(default_factory=dict)
    _events: list[tuple[float, str]] = field(default_factory=list)
    _late: dict[str, Gang] = field(default_factory=dict)
    _starts: dict[str, float] = field(default_factory=dict)

    def run(self, seconds: Mapping[str, float], targets: Collection[str]) -> dict[str, float]:
        """Return the seconds from now until each target starts; a target that never does lacks.

        ``seconds`` to the end of each gang, from now or from its start, may be infinite.
        """
        self._reset(seconds)
        self._admit()
        missing = set(targets) - self._starts.keys()
        while missing and self._events:
            self._time = self._events[0][0] + BATCH_SECONDS
            if math.isinf(self._time):
                break
            while self._events and self._events[0][0] <= self._time:
                self._finish(heapq.heappop(self._events)[1])
            self._admit()
            missing -= self._starts.keys()
        return {each: self._starts[each] for each in targets if each in self._starts}

    def _reset(self, seconds: Mapping[str, float]) -> None:
        self._time, self._left = 0.0, dict(seconds)
        self._running, self._events, self._starts = {}, [], {}
        self._priorities = {name: Counter() for name in self.queues}
        self._waiting = {name: {} for name in self.queues}
        for queue in self.queues.values():
            node = queue.node
            node.usage.clear()
            while node.parent:
                node = node.parent
                node.usage.clear()
        for gang in sorted(self.gangs, key=lambda each: each.order):
            if gang.held is not None:
                self._start(gang, gang.held, gang.began - self.now)
            elif gang.retry > self.now:
                self._events.append((gang.retry - self.now, gang.id))
            else:
                self._queue(gang)
        self._late = {each.id: each for each in self.gangs if each.retry > self.now}
        heapq.heapify(self._events)

    def _start(self, gang: Gang, usage: Usage, began: float) -> None:
        ends = self._time + self._left[gang.id]
        self._running[gang.id] = _Run(gang=gang, usage=usage, began=began, ends=ends)
        self._priorities[gang.queue][gang.priority] += 1
        self.queues[gang.queue].node.take(usage)
        heapq.heappush(self._events, (ends, gang.id))

    def _finish(self, id: str) -> None:
        """Handle an event: a gang ends, or is tried again."""
        run = self._running.get(id)
        if run and run.ends <= self._time:
            self._remove(run)
        elif not run and (late := self._late.pop(id, None)):
            self._queue(late)

    def _remove(self, run: _Run) -> None:
        del self._running[run.gang.id]
        counts = self._priorities[run.gang.queue]
        counts[run.gang.priority] -= 1
        if not counts[run.gang.priority]:
            del counts[run.gang.priority]
        self.queues[run.gang.queue].node.give(run.usage)

    def _queue(self, gang: Gang) -> None:
        line = self._waiting[gang.queue].setdefault((gang.shape, gang.priority), [])
        insort(line, gang, key=lambda each: each.order)

    def _admit(self) -> None:
        """Start all gangs that fit now."""
        for _ in range(ROUNDS):
            running = len(self._running)
            preempted = self._look_through()
            if not preempted or len(self._running) <= running:
                return

    def _look_through(self) -> bool:
        """Try the first gang of each queue, then the next ones; return whether one was preempted.

        What does not fit is skipped together with all gangs of its shape and priority, as Kueue
        0.18 does; under StrictFIFO with all behind it.
        """
        preempted = False
        heads = {
            name: [(line[0].order, n, line) for n, line in enumerate(lines.values()) if line]
            for name, lines in self._waiting.items()
        }
        for each in heads.values():
            heapq.heapify(each)
        moved = True
        while moved and (heads := {name: each for name, each in heads.items() if each}):
            moved, changed, reserved = False, False, []
            ordered = self._ordered(heads)
            # what is reserved after the last gang that may start changes nothing
            last = max((n for n, each in enumerate(ordered) if _may_start(each)), default=0)
            for place, (queue, lines, usage) in enumerate(ordered):
                gang = lines[0][2][0]
                if usage is not None:
                    if changed and (usage := self._fit(queue, gang.shape)) is None:
                        continue  # for those before it in this cycle; it is tried in the next
                elif (usage := self._preempt(queue, gang)) is not None:
                    preempted = True
                else:
                    if place < last and (kept := self._reserve(queue, gang.shape)):
                        reserved.append((queue.node, kept))
                        changed = True
                    if not queue.strict:
                        heapq.heappop(lines)
                        moved = True
                    continue
                _, number, line = heapq.heappop(lines)
                line.remove(gang)
                self._starts.setdefault(gang.id, self._time)
                self._start(gang, usage, self._time)
                moved = changed = True
                if line:
                    heapq.heappush(lines, (line[0].order, number, line))
            for node, usage in reserved:
                node.give(usage)
        return preempted

    def _ordered(self, heads: Mapping[str, Heads]) -> list[Head]:
        """Return the queues in the order of a cycle; in any order where none can start a gang.

        Those that do not borrow come first (`makeClassicalIterator` in `pkg/scheduler`).
        """

        def turn(head: Head) -> tuple[bool, tuple[int, float, str]]:
            queue, lines, usage = head
            gang = lines[0][2][0]
            return queue.node.borrows(usage or self._asked(queue, gang.shape)), gang.order

        queues = ((self.queues[name], lines) for name, lines in heads.items())
        found: list[Head] = [(q, lines, self._fit(q, lines[0][2][0].shape)) for q, lines in queues]
        return sorted(found, key=turn) if any(map(_may_start, found)) else found

    def _asked(self, queue: Queue, shape: Shape) -> Usage:
        """Return what a gang asks for of the first flavors that take it."""
        key = queue.name, shape
        if key not in self._first:
            usage: dict[Room, int] = {}
            for amounts, flavors in self._wanted[key]:
                for name, amount in amounts if flavors else ():
                    usage[flavors[0], name] = usage.get((flavors[0], name), 0) + amount
            self._first[key] = usage
        return self._first[key]

    def _reserve(self, queue: Queue, shape: Shape) -> dict[Room, int]:
        """Take what a gang that does not fit keeps from other queues in this cycle; return it.

        Only a gang within the nominal quota of a queue that cannot reclaim from all others
        (`reserveCapacityForUnreclaimablePreempt` in `pkg/scheduler/scheduler.go`).
        """
        node, usage = queue.node, self._asked(queue, shape)
        if node.parent is None or queue.reclaim == "Any":
            return {}
        borrows = node.borrows(usage)
        is_within = all(amount <= node.quota.get(room, 0) for room, amount in usage.items())
        if not is_within:
            return {}
        kept = {}
        for room, amount in usage.items():
            left = node.quota.get(room, 0) - node.usage.get(room, 0)
            most = amount if borrows else left
            if borrows and (limit := node.borrow.get(room)) is not None:
                most = left + limit
            kept[room] = max(0, min(amount, most))
        kept = {room: amount for room, amount in kept.items() if amount}
        node.take(kept)
        return kept

    def _fit(self, queue: Queue, shape: Shape) -> dict[Room, int] | None:
        """Return what a gang would use, in the first flavors with room; None without room."""
        key = queue.name, shape
        if key not in self._wanted:
            self._wanted[key] = _wanted(queue, shape)
        usage: dict[Room, int] = {}
        available = queue.node.available
        for amounts, flavors in self._wanted[key]:
            for flavor in flavors:
                for name, amount in amounts:
                    if available((flavor, name)) < amount + usage.get((flavor, name), 0):
                        break
                else:
                    for name, amount in amounts:
                        usage[flavor, name] = usage.get((flavor, name), 0) + amount
                    break
            else:
                return None
        return usage

    def _preempt(self, queue: Queue, gang: Gang) -> dict[Room, int] | None:
        """Free room by preemption; return what the gang then uses, or None and change nothing."""
        if not queue.preempts:
            return None
        own = self._victims(queue, gang, queue.within, [queue])
        others: list[_Run] = []
        if queue.reclaim != "Never" and queue.node.parent:
            root = queue.node.root
            lent = (q for q in self.queues.values() if q is not queue and q.node.root is root)
            others = self._victims(queue, gang, queue.reclaim, lent)
        for victims, may_borrow in (([*others, *own], not others), (own, True)):
            if not victims:
                continue
            usage = self._without(queue, gang, victims, may_borrow)
            if usage is not None:
                return usage
        return None

    def _victims(self, queue: Queue, gang: Gang, policy: str, where: Iterable[Queue]) -> list[_Run]:
        """Return the gangs that a policy lets another one preempt, in Kueue's order."""
        least = gang.priority + (policy != "LowerPriority")
        names = {
            each.name
            for each in where
            if policy == "Any" or any(n < least for n in self._priorities[each.name])
        }
        if policy == "Never" or not names:
            return []
        found = [
            run
            for run in self._running.values()
            if run.gang.queue in names
            and (policy == "Any" or run.gang.priority < least)
            and (
                run.gang.priority < gang.priority or policy == "Any" or run.gang.order > gang.order
            )
        ]
        return sorted(found, key=lambda run: (run.gang.priority, -run.began))

    def _without(
        self, queue: Queue, gang: Gang, victims: list[_Run], may_borrow: bool
    ) -> dict[Room, int] | None:
        def fit() -> dict[Room, int] | None:
            usage = self._fit(queue, gang.shape)
            return None if usage and not may_borrow and queue.node.borrows(usage) else usage

        usage: dict[Room, int] | None = None
        removed: list[_Run] = []
        for victim in victims:
            node = self.queues[victim.gang.queue].node
            if node is not queue.node and not node.borrows({room: 0 for room in victim.usage}):
                continue
            self._remove(victim)
            removed.append(victim)
            if (usage := fit()) is not None:
                break
        for victim in reversed(removed):  # those that need not end
            node = self.queues[victim.gang.queue].node
            node.take(victim.usage)
            kept = fit() if usage is not None and victim is not removed[-1] else None
            if usage is None or kept is not None:
                usage = kept
                self._running[victim.gang.id] = victim
                self._priorities[victim.gang.queue][victim.gang.priority] += 1
                continue
            node.give(victim.usage)
            self._left[victim.gang.id] = victim.ends - self._time
            self._queue(victim.gang)
        return usage


def _may_start(head: Head) -> bool:
    queue, _, usage = head
    return usage is not None or queue.preempts


def _wanted(queue: Queue, shape: Shape) -> Wanted:
    """Return what a shape asks of a queue, the scarcest resource of each group first."""

    def scarcity(item: tuple[str, int], flavor: str) -> float:
        return -item[1] / max(1, queue.node.quota.get((flavor, item[0]), 0))

    found = []
    for amounts, refused in shape:
        for resources, flavors in queue.groups:
            mine = [each for each in amounts if each[0] in resources]
            if mine:
                mine.sort(key=lambda each, first=flavors[0]: scarcity(each, first))  # type: ignore[misc]
                found.append((mine, [each for each in flavors if each not in refused]))
    return found
