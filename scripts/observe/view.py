"""One run as the states and screens read it: snapshot and files together. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from launchers.stages.attempt_record import End, root_of
from scripts.doctor.api import Object
from scripts.manifest import GANG
from scripts.observe.cluster import INDEX_LABEL, JOB_LABEL, Snapshot, condition, is_true, queue_name
from scripts.observe.workspace import Attempt, RunFiles, parse_end

LAUNCHER = "launcher"
"""Name of the container (chart/charts/library/templates/pod/_pod.tpl)."""
_JOINED = re.compile(r" gang (joined|dropped) peer=\"?rank (\d+)")
_LEADING = (" gang started ", " gang awaited ", " gang joined ", " gang dropped ")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One pod of the gang."""

    number: int
    pod: str
    node: str
    """Empty before it is scheduled."""
    phase: str
    terminating_since: float | None
    """Unix time; None if it is not being deleted."""
    started_at: float | None
    exit_code: int | None
    reason: str
    """Of a terminated container, such as OOMKilled; of a failed pod, such as Evicted."""
    end: End | None
    """Its termination message, if that is the launcher's."""
    message: str
    """Its termination message, or the reason of the kubelet."""

    @property
    def name(self) -> str:
        """Return the rank with its pod and node, as the launcher writes it."""
        where = f"{self.pod} on {self.node}" if self.node else self.pod
        return f"rank {self.number} ({where})"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A container that does not start."""

    rank: Rank
    container: str
    reason: str
    message: str


@dataclass(frozen=True)
class View:
    """A run in the cluster, and its files if they could be read."""

    snapshot: Snapshot
    files: RunFiles | None = None

    @property
    def run(self) -> str:
        """Return the run's name."""
        return self.snapshot.run

    @property
    def namespace(self) -> str:
        """Return the namespace that was asked."""
        return self.snapshot.namespace

    @property
    def now(self) -> float:
        """Return the time of the snapshot, by the server's clock."""
        return self.snapshot.now

    @property
    def jobset(self) -> Object:
        """Return the JobSet; empty without one."""
        return self.snapshot.jobset

    @property
    def is_answered(self) -> bool:
        """Return whether an API server answered, also by a refusal."""
        return not self.snapshot.answer("get jobsets").lost

    @property
    def queue(self) -> str:
        """Return the LocalQueue of the run; empty for none."""
        return queue_name(self.jobset) if self.jobset else ""

    @property
    def workload(self) -> Object:
        """Return Kueue's Workload; empty without one."""
        return self.snapshot.workload

    @property
    def is_suspended(self) -> bool:
        """Return whether the JobSet may not have pods."""
        return bool((self.jobset.get("spec") or {}).get("suspend"))

    @property
    def is_admitted(self) -> bool:
        """Return whether Kueue has admitted the run."""
        return is_true(self.workload, "Admitted")

    @property
    def terminal(self) -> str:
        """Return `Completed` or `Failed`; empty before the end."""
        return terminal_state(self.jobset)

    @property
    def restarts(self) -> tuple[int, int]:
        """Return the restarts of the JobSet: all, and those that count towards the limit.

        With JobSet's agent the pods' attempts include the JobSet's own restarts
        (exceededMaxRestarts in kubernetes-sigs/jobset:pkg/controllers/in_place_restart.go).
        """
        status: Object = self.jobset.get("status") or {}
        every, counted = status.get("restarts") or 0, status.get("restartsCountTowardsMax") or 0
        in_place = status.get("currentInPlaceRestartAttempt") or 0
        return max(every, in_place), max(counted, in_place - (every - counted))

    @property
    def max_restarts(self) -> int:
        """Return `restarts.max`."""
        policy: Object = (self.jobset.get("spec") or {}).get("failurePolicy") or {}
        return int(policy.get("maxRestarts") or 0)

    @property
    def gang(self) -> Object:
        """Return the gang's replicated job; empty without a JobSet of this chart."""
        jobs = (self.jobset.get("spec") or {}).get("replicatedJobs") or []
        return next((each for each in jobs if each["name"] == GANG), {})

    @property
    def nodes(self) -> int:
        """Return the number of ranks; 0 if it is not known."""
        if not self.gang:
            return 0
        completions = int(self.gang["template"]["spec"].get("completions") or 1)
        return int(self.gang.get("replicas") or 1) * completions

    @property
    def gang_pod(self) -> Object:
        """Return the gang's pod template; empty without a JobSet of this chart."""
        found: Object = self.gang["template"]["spec"]["template"] if self.gang else {}
        return found

    @property
    def variables(self) -> dict[str, Object]:
        """Return the variables of the gang's container by name."""
        containers = (self.gang_pod.get("spec") or {}).get("containers") or []
        found: Object = next((each for each in containers if each["name"] == LAUNCHER), {})
        return {each["name"]: each for each in found.get("env") or []}

    @cached_property
    def ranks(self) -> list[Rank]:
        """Return the gang's pods by rank; of two pods of a rank the younger."""
        found: dict[int, Rank] = {}
        for pod in sorted(self.snapshot.pods, key=lambda each: _created(each)):
            labels = pod["metadata"].get("labels") or {}
            if labels.get(JOB_LABEL) == GANG:
                rank = _rank(pod, labels)
                found[rank.number] = rank
        return [found[number] for number in sorted(found)]

    @cached_property
    def waiting(self) -> list[Waiting]:
        """Return the containers that do not start, by pod; a stage's pod is rank 0 of its job."""
        by_pod = {rank.pod: rank for rank in self.ranks}
        return [
            found
            for pod in self.snapshot.pods
            for found in _waiting(pod, by_pod.get(pod["metadata"]["name"]) or _rank(pod, {}))
        ]

    @property
    def attempt(self) -> Attempt | None:
        """Return the newest attempt in the run's files."""
        return self.files.attempts[-1] if self.files and self.files.attempts else None

    @cached_property
    def root(self) -> End | None:
        """Return the end that caused the last failure: of the pods, otherwise of the files.

        None while the gang runs.
        """
        ends = tuple(rank.end for rank in self.ranks if rank.end)
        runs = any(rank.phase == "Running" for rank in self.ranks)
        if not ends and not runs and self.attempt:
            ends = self.attempt.ends
        return root_of(ends)

    @property
    def is_running(self) -> bool:
        """Return whether all ranks run."""
        running = [each for each in self.ranks if each.phase == "Running"]
        return bool(running) and len(running) == self.nodes

    @cached_property
    def joined(self) -> frozenset[int] | None:
        """Return the ranks that rank 0 has met at the start barrier; None once it has started.

        Also None if rank 0's log does not show the barrier.
        """
        log = self.snapshot.log
        if not any(word in log for word in _LEADING) or " gang started " in log:
            return None
        present = {0}
        for match in _JOINED.finditer(log):
            (present.add if match[1] == "joined" else present.discard)(int(match[2]))
        return frozenset(present)

    def workload_condition(self, kind: str) -> Object:
        """Return a condition of the Workload; empty without one."""
        return condition(self.workload, kind)

    @property
    def pending_message(self) -> str:
        """Return why Kueue has not reserved quota; empty once it has, or before it has looked.

        That a queue is stopped Kueue says until the run's turn, also when the queue has started
        again: a queue that can be read tells it itself.
        """
        found = self.workload_condition("QuotaReserved")
        said = str(found.get("message") or "") if found.get("status") == "False" else ""
        queues = {"Local": self.snapshot.local_queue, "Cluster": self.snapshot.cluster_queue}
        named = re.search(r"(Local|Cluster)Queue \S+ is (stopped|inactive)", said)
        return "" if named and queues[named[1]] else said

    def events(self, *reasons: str) -> list[Object]:
        """Return the run's events of these reasons, the newest first."""
        return [each for each in reversed(self.snapshot.events) if each.get("reason") in reasons]


def terminal_state(jobset: Object) -> str:
    """Return `Completed` or `Failed`; empty before the end."""
    status: Object = jobset.get("status") or {}
    if found := str(status.get("terminalState") or ""):
        return found
    return next((each for each in ("Completed", "Failed") if is_true(jobset, each)), "")


def unix_time(text: object) -> float | None:
    """Return a time of the API as a Unix time; None if it is missing.

    >>> unix_time("1970-01-01T00:01:00Z"), unix_time(None)
    (60.0, None)
    """
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _created(item: Object) -> str:
    return str(item["metadata"].get("creationTimestamp") or "")


def _launcher(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == LAUNCHER), {})


def _rank(pod: Object, labels: Mapping[str, str]) -> Rank:
    status: Object = pod.get("status") or {}
    state: Object = _launcher(pod).get("state") or {}
    ended: Object = state.get("terminated") or {}
    running: Object = state.get("running") or {}
    message = str(ended.get("message") or status.get("message") or "")
    return Rank(
        number=int(labels.get(INDEX_LABEL) or 0),
        pod=pod["metadata"]["name"],
        node=str(pod["spec"].get("nodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        terminating_since=unix_time(pod["metadata"].get("deletionTimestamp")),
        started_at=unix_time(running.get("startedAt") or ended.get("startedAt")),
        exit_code=ended.get("exitCode"),
        reason=str(ended.get("reason") or status.get("reason") or ""),
        end=parse_end(message),
        message=" ".join(message.split()),
    )


def _waiting(pod: Object, rank: Rank) -> Iterator[Waiting]:
    status: Object = pod.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(field) or []:
            found = (each.get("state") or {}).get("waiting")
            if found:
                yield Waiting(
                    rank=rank,
                    container=each["name"],
                    reason=str(found.get("reason") or ""),
                    message=" ".join(str(found.get("message") or "").split()),
                )
