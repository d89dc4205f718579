"""States between a queue and the first pod: what is admitted and not started, other clusters.

Messages and reasons are those of Kueue 0.19.2.
"""

from tests.scripts.observe.planted import Object, jobset, suspended, view, workload
from tests.scripts.why.planted import States

LATE = "2026-11-18T08:26:45Z"
"""Two hours before NOW."""


def admitted(when: str, **fields: object) -> Object:
    made = workload(holds=16, **fields)  # type: ignore[arg-type]
    for each in made["status"]["conditions"]:
        each["lastTransitionTime"] = when
    return made


STATES: States = {
    "runs-elsewhere": (
        lambda: view(
            jobset(replicatedJobsStatus=[{"name": "node", "ready": 1}]),
            workloads=[workload(holds=16, clusterName="worker-1")],
        ),
        "in cluster worker-1, to which Kueue dispatched it (MultiKueue); all its pods are ready",
    ),
    "admitted-suspended": (
        lambda: view(suspended(), workloads=[admitted(LATE)]),
        "Kueue admitted the run, and its JobSet is still suspended for 120 min.",
    ),
}
