"""Read a run's objects: JobSet, Jobs, Pods, Workload, queue, events; a refusal is an answer too.

Every request needs a right in the run's namespace only, except those in `OPTIONAL`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scripts.doctor import api as kinds
from scripts.doctor.api import NO_ANSWER, Answer, Api, Object
from scripts.manifest import GANG, KUEUE
from scripts.observe.concurrent import start

NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
QUEUE_LABEL = f"{KUEUE}/queue-name"
PRIORITY_LABEL = f"{KUEUE}/priority-class"
UID_LABEL = f"{KUEUE}/job-uid"
"""Label of a Workload: the uid of the object that it was made for."""
CHART_LABEL = "app.kubernetes.io/part-of"
CHART = "megatron-dpo"
VISIBILITY = f"visibility.{KUEUE}"
EVENT_OBJECTS = 11
"""Objects other than the Workload whose events are read at most: in a large gang all pods fail in
the same way."""
CORDONED = "node(s) were unschedulable"
"""In the scheduler's message about a pod that cordoned nodes do not take."""
LOG_LINES = 400
"""Last lines of rank 0's log that are read."""

Requests = Mapping[str, tuple[str, Mapping[str, str]]]
"""Path and query by permission."""
EVERYWHERE = "list jobsets everywhere"
ALL_WORKLOADS, OWN_WORKLOADS = "list workloads everywhere", "list workloads of the namespace"
QUEUES: Requests = {
    "list clusterqueues": (kinds.CLUSTER_QUEUES.path(""), {}),
    "list cohorts": (kinds.COHORTS.path(""), {}),
    "list resourceflavors": (kinds.FLAVORS.path(""), {}),
    "list localqueues everywhere": (kinds.LOCAL_QUEUES.path(""), {}),
}
"""Requests for the quotas from which the start of a waiting run is predicted."""
VITAL = ("get jobsets", "list jobs", "list pods", "list workloads", "get localqueues")
"""Requests without whose answers the state of a run is not known."""
OPTIONAL = frozenset(
    {
        "get clusterqueues",
        "get workloadpriorityclasses",
        "list nodes",
        "list pendingworkloads",
        ALL_WORKLOADS,
        EVERYWHERE,
        *QUEUES,
    }
)
"""Requests outside the run's namespace or of an optional API; a refusal leaves out details."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run in the cluster as this user sees it, at one moment."""

    context: str
    namespace: str
    run: str
    now: float
    """Unix time by the API server's clock, by which the objects' times are compared."""
    chosen: frozenset[str] = frozenset()
    """`context`, `namespace`: those that a command has to name, see `Api`."""
    unselected: str = ""
    """Why no cluster is selected, see `Api`; empty if one is."""
    skew: float = 0.0
    """Seconds by which this machine's clock is ahead of the server's."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By the permission that the request needs, such as `list pods`."""
    log: str = ""
    """End of rank 0's log; empty without a pod or the permission."""
    left: Mapping[str, float] = field(default_factory=dict)
    """Seconds that other runs have left by their own estimate, by the uid of the Workload."""
    deadlines: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the deadline of its Jobs leaves another run, by the uid of the Workload."""

    def answer(self, key: str) -> Answer:
        """Return an answer; `NO_ANSWER` for a request that was not sent."""
        return self.answers.get(key, NO_ANSWER)

    def _content(self, key: str) -> Object:
        found = self.answer(key)
        return found.content if found.found else {}

    @property
    def jobset(self) -> Object:
        """Return the JobSet; empty when it was not found."""
        return self._content("get jobsets")

    @property
    def pods(self) -> list[Object]:
        """Return the run's pods, without that of `helm test`."""
        return self.answer("list pods").items

    @property
    def jobs(self) -> list[Object]:
        """Return the run's Jobs."""
        return self.answer("list jobs").items

    @property
    def events(self) -> list[Object]:
        """Return the events of the run's objects, the oldest first."""
        lists = (a.items for key, a in self.answers.items() if key.startswith("list events"))
        return sorted((each for items in lists for each in items), key=event_time)

    @property
    def workload(self) -> Object:
        """Return Kueue's Workload; empty without one."""
        return next(iter(self.answer("list workloads").items), {})

    @property
    def workloads(self) -> list[Object]:
        """Return all Workloads that may be read: of all namespaces, otherwise of the run's."""
        everywhere = self.answer(ALL_WORKLOADS)
        return (everywhere if everywhere.found else self.answer(OWN_WORKLOADS)).items

    @property
    def local_queue(self) -> Object:
        """Return the LocalQueue; empty when it was not found."""
        return self._content("get localqueues")

    @property
    def cluster_queue(self) -> Object:
        """Return the ClusterQueue; empty when it was not found or may not be read."""
        return self._content("get clusterqueues")

    @property
    def groups(self) -> frozenset[str] | None:
        """Return the served API groups; None if they are not known."""
        found = self.answer("get /apis")
        if not found.found:
            return None
        return frozenset(each["name"] for each in found.content.get("groups") or [])

    @property
    def lost(self) -> str:
        """Return why a vital answer is missing; empty if none is, or no cluster is selected."""
        if self.unselected:
            return ""
        sent = ((key, self.answers[key]) for key in VITAL if key in self.answers)
        return next((f"{key}: {answer.why}" for key, answer in sent if answer.lost), "")

    @property
    def missing_permissions(self) -> list[str]:
        """Return the permissions in the namespace that the user lacks."""
        refused = {key.partition(" of ")[0] for key, a in self.answers.items() if a.status == 403}
        return sorted(refused - OPTIONAL)


def event_time(event: Object) -> str:
    """Return when an event was last seen; RFC 3339 times in UTC sort as text."""
    series: Object = event.get("series") or {}
    found = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    return str(found or (event.get("metadata") or {}).get("creationTimestamp") or "")


def objects_of(api: Api, run: str) -> Snapshot:
    """Read the JobSet of a run, its Jobs and pods, at once."""
    sent_at = time.time()
    answers = _ask(api, _of_run(api.namespace, run))
    now = answers["get jobsets"].time
    return Snapshot(
        context=api.context,
        namespace=api.namespace,
        run=run,
        chosen=api.chosen,
        unselected=api.unselected,
        now=now or sent_at,
        skew=sent_at - now if now else 0.0,
        answers=answers,
    )


def gather(api: Api, run: str, *, queue: bool = True) -> Snapshot:
    """Send all requests for one run, those that are independent at once.

    ``queue`` reads what explains waiting, too: the queue, its other workloads, and events.
    """
    found = objects_of(api, run)
    if found.answer("get jobsets").lost:
        return found  # each further request would wait for its time limit, too
    leader = _leader(found)
    path = kinds.PODS.path(api.namespace, f"{leader}/log")
    lines = {"tailLines": str(LOG_LINES), "container": "launcher"}
    log = start(api.text, path, **lines) if leader else None
    rounds = (_of_waiting, _of_queue, _of_own_namespace) if queue else (_of_jobset,)
    for wanted in rounds:
        found = replace(found, answers={**found.answers, **_ask(api, wanted(found))})
    return replace(found, log=(log.result() if log else None) or "")


def with_config_map(api: Api, found: Snapshot, name: str) -> Snapshot:
    """Return a snapshot with a ConfigMap; it holds the launcher's archive, some 300 kB."""
    path = kinds.CONFIG_MAPS.path(found.namespace, name)
    return replace(found, answers={**found.answers, "get configmaps": api.get(path)})


def _ask(api: Api, wanted: Requests) -> dict[str, Answer]:
    sent = {key: start(api.get, path, **query) for key, (path, query) in wanted.items()}
    return {key: each.result() for key, each in sent.items()}


def _of_run(space: str, run: str) -> Requests:
    chosen = {"labelSelector": f"{NAME_LABEL}={run}"}
    return {
        "get jobsets": (kinds.JOBSETS.path(space, run), {}),
        "list jobs": (kinds.JOBS.path(space), chosen),
        "list pods": (kinds.PODS.path(space), chosen),
        "get /apis": ("/apis", {}),
    }


def _of_jobset(found: Snapshot) -> Requests:
    """Return the requests that need the JobSet; without one, the names of the others."""
    space, jobset = found.namespace, found.jobset
    if not jobset:
        chart = {"labelSelector": f"{CHART_LABEL}={CHART}"}
        of_name = {"fieldSelector": f"metadata.name={found.run}", **chart}
        here = {"list jobsets": (kinds.JOBSETS.path(space), chart)}
        return {**here, EVERYWHERE: (kinds.JOBSETS.path(""), of_name)}
    wanted: dict[str, tuple[str, Mapping[str, str]]] = {}
    if name := queue_name(jobset):
        uid = jobset["metadata"]["uid"]
        chosen = {"labelSelector": f"{UID_LABEL}={uid}"}
        wanted["list workloads"] = (kinds.WORKLOADS.path(space), chosen)
        wanted["get localqueues"] = (kinds.LOCAL_QUEUES.path(space, name), {})
    return wanted


def _of_waiting(found: Snapshot) -> Requests:
    """Return those of `_of_jobset`, and what explains waiting and needs no other object.

    A suspended run waits for its quota, mostly: the list of all Workloads, the longest answer, is
    asked for before its own Workload is known.
    """
    space, jobset = found.namespace, found.jobset
    wanted = dict(_of_jobset(found))
    if not jobset:
        return wanted
    if queue_name(jobset) and (jobset.get("spec") or {}).get("suspend"):
        wanted |= _of_all_workloads(found)
    for claim in sorted(claims(jobset)):
        wanted[f"get persistentvolumeclaims of {claim}"] = (kinds.CLAIMS.path(space, claim), {})
    # events of pods that run explain nothing, and are not read
    waiting = [pod for pod in found.pods if not _is_ready(pod)]
    return {**wanted, **_of_events(found, [jobset, *found.jobs, *waiting])}


def _of_queue(found: Snapshot) -> Requests:
    """Return the requests that need the run's LocalQueue and Workload."""
    wanted: dict[str, tuple[str, Mapping[str, str]]] = {}
    if queue := str((found.local_queue.get("spec") or {}).get("clusterQueue") or ""):
        wanted["get clusterqueues"] = (kinds.CLUSTER_QUEUES.path("", queue), {})
    priority = priority_class(found.jobset) if found.jobset and queue else ""
    if priority and not found.workload:
        wanted["get workloadpriorityclasses"] = (kinds.PRIORITIES.path("", priority), {})
    if any(CORDONED in str(condition(each, "PodScheduled").get("message")) for each in found.pods):
        wanted["list nodes"] = (kinds.NODES.path(""), {"fieldSelector": "spec.unschedulable=true"})
    waits = found.workload and not is_true(found.workload, "QuotaReserved")
    if waits and ALL_WORKLOADS not in found.answers:
        wanted |= _of_all_workloads(found)
    if waits:
        wanted |= QUEUES
    return {**wanted, **_of_own_namespace(found), **_of_events(found, [found.workload])}


def _of_all_workloads(found: Snapshot) -> Requests:
    path = f"localqueues/{queue_name(found.jobset)}/pendingworkloads"
    root = f"/apis/{VISIBILITY}/v1beta2/namespaces/{found.namespace}"
    pending = (f"{root}/{path}", {"limit": "5000"})
    return {ALL_WORKLOADS: (kinds.WORKLOADS.path(""), {}), "list pendingworkloads": pending}


def _of_own_namespace(found: Snapshot) -> Requests:
    """Return the request for the namespace's Workloads, if those of all namespaces were refused.

    A thousand of them are 10 MB: they are read once.
    """
    is_read = OWN_WORKLOADS in found.answers or found.answer(ALL_WORKLOADS).found
    if is_read or ALL_WORKLOADS not in found.answers:
        return {}
    return {OWN_WORKLOADS: (kinds.WORKLOADS.path(found.namespace), {})}


def _of_events(found: Snapshot, items: Sequence[Object]) -> Requests:
    names = [each["metadata"]["name"] for each in items if each][:EVENT_OBJECTS]
    path = kinds.EVENTS.path(found.namespace)
    return {
        f"list events of {name}": (path, {"fieldSelector": f"involvedObject.name={name}"})
        for name in names
    }


def _is_ready(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def _leader(found: Snapshot) -> str:
    """Return the name of rank 0's pod if it has a log; empty otherwise."""
    for pod in found.pods:
        labels = pod["metadata"].get("labels") or {}
        if (labels.get(JOB_LABEL), labels.get(INDEX_LABEL)) == (GANG, "0"):
            statuses = (pod.get("status") or {}).get("containerStatuses") or []
            if any("waiting" not in (each.get("state") or {}) for each in statuses):
                return str(pod["metadata"]["name"])
    return ""


def queue_name(jobset: Object) -> str:
    """Return the LocalQueue that a JobSet names; empty without one."""
    return _label(jobset, QUEUE_LABEL)


def priority_class(jobset: Object) -> str:
    """Return the WorkloadPriorityClass that a JobSet names; empty without one."""
    return _label(jobset, PRIORITY_LABEL)


def _label(jobset: Object, name: str) -> str:
    return str((jobset["metadata"].get("labels") or {}).get(name) or "")


def claims(jobset: Object) -> set[str]:
    """Return the claims that a JobSet's pods mount."""
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for job in (jobset.get("spec") or {}).get("replicatedJobs") or []
        for volume in job["template"]["spec"]["template"]["spec"].get("volumes") or []
        if "persistentVolumeClaim" in volume
    }


def condition(item: Object, kind: str) -> Object:
    """Return an object's condition of a type; empty without one."""
    found = (item.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})


def is_true(item: Object, kind: str) -> bool:
    """Return whether an object has a condition with status True."""
    return condition(item, kind).get("status") == "True"


def failure(answer: Answer) -> str:
    """Return in words why a request has no result, without the server's own text.

    >>> failure(Answer(status=401)), failure(Answer(status=503))
    ('the API server does not accept the user', 'no answer of the API server')
    """
    if answer.lost:
        return "no answer of the API server"
    known = {401: "the API server does not accept the user", 403: "you lack the permission"}
    return known.get(answer.status, "the API server refused the request")
