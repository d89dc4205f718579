"""Pods of a JobSet (v1alpha2), with the labels and environment that controllers add."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scripts.manifest import JobSet, ReplicatedJob
from scripts.problem import Problem

JOBSET = "jobset.sigs.k8s.io"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod of one attempt."""

    job: ReplicatedJob
    name: str
    """<jobset>-<replicated job>-<job index>-<completion index>: its host name. A cluster appends
    five random letters to the pod's name; here there is only one pod of each rank."""
    address: str
    """Its DNS name in the cluster."""
    index: int
    """JOB_COMPLETION_INDEX."""
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    attempt: str
    """Number of restarts before it."""
    gpus: tuple[str, ...] = ()
    """CUDA_VISIBLE_DEVICES of its own."""


def expand(jobset: JobSet, restarts: int = 0) -> list[Pod]:
    """Return all pods of the attempt after `restarts` restarts, in the order of the manifest."""
    return [
        _pod(jobset, job, replica, index, restarts)
        for job in jobset.jobs
        for replica in range(job.replicas)
        for index in range(job.completions)
    ]


def _pod(jobset: JobSet, job: ReplicatedJob, replica: int, index: int, restarts: int) -> Pod:
    job_name = f"{jobset.name}-{job.name}-{replica}"
    name = f"{job_name}-{index}"
    completion = {"batch.kubernetes.io/job-completion-index": str(index)}
    added = {
        f"{JOBSET}/jobset-name": jobset.name,
        f"{JOBSET}/jobset-uid": f"local-{jobset.name}",
        f"{JOBSET}/replicatedjob-name": job.name,
        f"{JOBSET}/replicatedjob-replicas": str(job.replicas),
        f"{JOBSET}/job-index": str(replica),
        f"{JOBSET}/restart-attempt": str(restarts),
    }
    return Pod(
        job=job,
        name=name,
        address=f"{name}.{jobset.subdomain}",
        index=index,
        attempt=str(restarts),
        node=f"local-{replica * job.completions + index}",
        labels={
            **job.labels,
            **added,
            **completion,
            "batch.kubernetes.io/job-name": job_name,
            "job-name": job_name,
        },
        annotations={**job.annotations, **added, **completion},
    )


def order(jobs: Sequence[ReplicatedJob]) -> list[list[str]]:
    """Return the replicated jobs in waves; each depends on jobs of earlier waves only."""
    waves: list[list[str]] = []
    left = {job.name: set(job.depends_on) for job in jobs}
    while left:
        wave = [name for name, needed in left.items() if not needed & left.keys()]
        if not wave:
            raise Problem(f"dependsOn of {', '.join(left)} is a circle")
        waves.append(wave)
        left = {name: needed for name, needed in left.items() if name not in wave}
    return waves


def refuse_unrunnable(jobset: JobSet) -> None:
    """Check that each pod is one process.

    Raises:
        Problem: a pod has init containers or more than one container.
    """
    for job in jobset.jobs:
        for kind, most in (("containers", 1), ("initContainers", 0)):
            count = len(job.pod.get(kind) or [])
            if count != most:
                raise Problem(
                    f"pods of {job.name} have {count} {kind}; locally a pod is one process: "
                    "choose a network.profile without init containers, such as tcp"
                )


def requested(job: ReplicatedJob, resource: str) -> int:
    """Return the amount of an extended resource, e.g. nvidia.com/gpu, that each pod requests."""
    return int((job.container.get("resources") or {}).get("limits", {}).get(resource, 0))


def share(counts: Sequence[int], devices: Sequence[str]) -> list[tuple[str, ...]]:
    """Return disjoint devices for pods that run at once and ask for `counts` of them.

    >>> share([2, 0, 1], ["0", "1", "2", "3"])
    [('0', '1'), (), ('2',)]
    """
    if sum(counts) > len(devices):
        raise Problem(
            f"the pods ask for {sum(counts)} GPUs and this machine has {len(devices)}; "
            "write --set gpusPerNode=..., --set nodes=..., or gpusPerNode=0 for CPU"
        )
    starts = [sum(counts[:place]) for place in range(len(counts))]
    return [
        tuple(devices[start : start + count]) for start, count in zip(starts, counts, strict=True)
    ]
