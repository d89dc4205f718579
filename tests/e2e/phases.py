"""Launchers held in each phase: pods from the chart's own template, one rank each."""

from dataclasses import dataclass, field

from tests.e2e import sources, standin
from tests.e2e.kubectl import Object
from tests.e2e.merge import merge
from tests.e2e.runs import INDEX
from tests.e2e.space import Space

NOWHERE = "http://nowhere.invalid"
SIZES = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1}
SMALL: Object = {
    # All phases fit on three hosts of eight GPUs at once.
    "gpusPerNode": 2,
    "recipe": {"args": {**SIZES, "expert_model_parallel_size": 2}},
    "kueue": {"queue": "", "topology": {"mode": "none", "key": ""}},
}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase, the means to hold a launcher in it, and the log line that identifies it."""

    name: str
    seen: str
    rank: int = 0
    over: Object = field(default_factory=dict)


PHASES = (
    Phase(name="look-up-of-rank-0", rank=1, seen="run start"),
    Phase(name="barrier", seen="convert skipped"),
    Phase(name="clone", seen="clone start", over={"code": {"url": f"{NOWHERE}/x", "ref": "main"}}),
    Phase(name="download", seen="download start", over=sources.hub("hf://org/model@main", NOWHERE)),
    Phase(name="convert", seen="has started", over={"stages": {"convert": {"skip": False}}}),
    Phase(name="train", seen="has started", over={"nodes": 1}),
)


def bare_pod(space: Space, phase: Phase) -> list[Object]:
    """Return a Pod that waits in a phase, with its ConfigMaps; no JobSet replaces it."""
    release, _ = standin.release(space, phase.name, merge(SMALL, phase.over), hold=True)
    made = release.render()
    maps = [item for item in made if item["kind"] == "ConfigMap"]
    [jobset] = [item for item in made if item["kind"] == "JobSet"]
    template = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]
    container = template["spec"]["containers"][0]
    container["env"].append({"name": "JOB_COMPLETION_INDEX", "value": str(phase.rank)})
    labels = {f"jobset.sigs.k8s.io/{name}": "0" for name in ("job-index", "restart-attempt")}
    metadata = {"name": phase.name, "labels": labels | {INDEX: str(phase.rank)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    return [*maps, pod]
