"""States between a queue and the first pod: topologies, what is never admitted, other clusters.

Messages and reasons are those of Kueue 0.19.2.
"""

from tests.scripts.observe.planted import Object, jobset, pending, suspended, view, workload
from tests.scripts.why.planted import States

ASSIGN = "couldn't assign flavors to pod set node: "
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
    "topology-level-missing": (
        lambda: view(
            suspended(),
            workloads=[
                pending(
                    f'{ASSIGN}Flavor "a100" does not contain the requested level',
                    "NoMatchingFlavor",
                )
            ],
        ),
        'Flavor "a100" does not contain the requested level',
    ),
    "inadmissible": (
        lambda: view(
            suspended(),
            workloads=[pending(f"{ASSIGN}flavor a100 is of another kind", "NoMatchingFlavor")],
        ),
        "(NoMatchingFlavor): couldn't assign flavors to pod set node: flavor a100 is of another",
    ),
    "admitted-suspended": (
        lambda: view(suspended(), workloads=[admitted(LATE)]),
        "Kueue admitted the run, and its JobSet is still suspended for 120 min.",
    ),
}
