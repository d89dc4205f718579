"""A small model of Kueue's admission, written apart from `scripts/start`: it tries every waiting
gang at every moment. It yields the documents that the API server would have."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
BEGIN = 1_794_960_000.0


def stamp(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat().replace("+00:00", "Z")


@dataclass(kw_only=True)
class Gang:
    """A run, its real duration, and what its owner said about it."""

    name: str
    queue: str
    gpus: int
    priority: int
    created: float
    seconds: float
    limit: int | None
    started: float | None = None
    ended: float | None = None

    @property
    def holds(self) -> bool:
        return self.started is not None and self.ended is None


@dataclass(kw_only=True)
class Cluster:
    """Queues of one flavor, in one cohort; quota by queue."""

    quotas: dict[str, int]
    gangs: list[Gang]
    strict: bool = False
    now: float = BEGIN
    noise: Random = field(default_factory=lambda: Random(1))

    def step(self) -> bool:
        """Admit one second after the next end of a gang; return whether there is one."""
        ends = [each.started + each.seconds for each in self.gangs if each.holds and each.started]
        if not ends:
            return False
        self.now = min(ends) + 1.0
        for each in self.gangs:
            if each.holds and each.started and each.started + each.seconds <= self.now:
                each.ended = each.started + each.seconds
        self.admit()
        return True

    def admit(self) -> None:
        waiting = [g for g in self.gangs if g.started is None and g.created <= self.now]
        lines = {q: sorted((g for g in waiting if g.queue == q), key=order) for q in self.quotas}
        moved = True
        while moved and any(lines.values()):
            moved = False
            kept = dict.fromkeys(self.quotas, 0)  # for gangs of this cycle that have no room
            heads = [line[0] for line in lines.values() if line]
            before = sum(self._used(q) for q in self.quotas)
            for gang in sorted(heads, key=lambda g: (self._borrows(g), order(g))):
                free = sum(self.quotas.values()) - sum(self._used(q) for q in self.quotas)
                if gang.gpus <= free - sum(kept.values()):
                    lines[gang.queue].pop(0)
                    gang.started, moved = self.now, True
                elif gang.gpus > sum(self.quotas.values()) - before:
                    if gang.gpus <= self.quotas[gang.queue]:
                        left = max(0, self.quotas[gang.queue] - self._used(gang.queue))
                        borrows = self._borrows(gang)
                        kept[gang.queue] = gang.gpus if borrows else min(gang.gpus, left)
                    if not self.strict:
                        alike, line = (gang.gpus, gang.priority), lines[gang.queue]
                        line[:] = [g for g in line if (g.gpus, g.priority) != alike]
                        moved = True

    def _borrows(self, gang: Gang) -> bool:
        return self._used(gang.queue) + gang.gpus > self.quotas[gang.queue]

    def _used(self, queue: str) -> int:
        return sum(each.gpus for each in self.gangs if each.holds and each.queue == queue)

    def cluster_queues(self) -> Iterator[Object]:
        for name, quota in self.quotas.items():
            amounts = {GPU: quota, "cpu": "1k"}
            resources = [{"name": n, "nominalQuota": amount} for n, amount in amounts.items()]
            flavors = [{"name": "a100", "resources": resources}]
            group = {"coveredResources": [*amounts], "flavors": flavors}
            strategy = "StrictFIFO" if self.strict else "BestEffortFIFO"
            spec = {"cohortName": "all", "queueingStrategy": strategy, "resourceGroups": [group]}
            yield {"metadata": {"name": name}, "spec": spec}

    def local_queues(self) -> Iterator[Object]:
        for name in self.quotas:
            yield {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}

    def workloads(self) -> Iterator[Object]:
        for each in self.gangs:
            if each.created <= self.now:
                yield workload(each, self.now)

    def left(self, share: float) -> dict[str, float]:
        """What the progress of some running gangs says, with an error of up to 8 %."""
        return {
            each.name: (each.started + each.seconds - self.now) * self.noise.uniform(0.92, 1.08)
            for each in self.gangs
            if each.holds and each.started is not None and self.noise.random() < share
        }


def order(gang: Gang) -> tuple[int, float, str]:
    return -gang.priority, gang.created, gang.name


def workload(gang: Gang, now: float) -> Object:
    """The Workload of a gang of pods with 8 GPUs, or fewer in one pod."""
    pods = max(1, gang.gpus // 8)
    requests = {GPU: str(gang.gpus // pods), "cpu": "1"}
    container = {"resources": {"requests": requests}}
    podset = {"name": "node", "count": pods, "template": {"spec": {"containers": [container]}}}
    spec: Object = {"queueName": gang.queue, "priority": gang.priority, "podSets": [podset]}
    if gang.limit:
        spec["maximumExecutionTimeSeconds"] = gang.limit
    conditions, status = [], {}
    for kind, when in (("QuotaReserved", gang.started), ("Finished", gang.ended)):
        if when is not None:
            conditions.append({"type": kind, "status": "True", "lastTransitionTime": stamp(when)})
    if gang.started is not None:
        usage = {GPU: str(gang.gpus), "cpu": str(pods)}
        assigned = {"name": "node", "flavors": dict.fromkeys(usage, "a100"), "resourceUsage": usage}
        status["admission"] = {"clusterQueue": gang.queue, "podSetAssignments": [assigned]}
    meta = {"name": gang.name, "namespace": "team", "uid": gang.name}
    meta["creationTimestamp"] = stamp(gang.created)
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions, **status}}


def crowd(seed: int, count: int = 100, *, strict: bool = False) -> Cluster:
    """Gangs of random size, priority and duration, submitted within minutes of each other."""
    chance = Random(seed)
    gangs = []
    for number in range(count):
        seconds = chance.lognormvariate(8.0, 0.7)
        made = Gang(
            name=f"run-{number}",
            limit=int(seconds / chance.uniform(0.5, 0.95)),
            queue=chance.choice(["one", "two"]),
            gpus=chance.choice([1, 2, 4, 8, 8, 16, 16, 32]),
            priority=chance.choice([0, 0, 0, 100, -100]),
            created=BEGIN + number,
            seconds=seconds,
        )
        gangs.append(made)
    return Cluster(quotas={"one": 32, "two": 32}, gangs=gangs, strict=strict, now=BEGIN + count)
