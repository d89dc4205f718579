"""State of one run, from the cluster and the workspace."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.api import Object
from tests.e2e.space import Space
from tests.e2e.until import until

GANG = "jobset.sigs.k8s.io/replicatedjob-name=node"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, kw_only=True)
class Pod:
    name: str
    uid: str
    rank: int
    node: str
    phase: str
    ready: bool
    ending: bool
    """True if it is being deleted."""
    code: int | None
    """The launcher's exit code; None while it runs."""
    said: str
    """Its termination message."""


def pod_of(item: Object) -> Pod:
    status = item["status"]
    launcher: Object = next(iter(status.get("containerStatuses", [])), {})
    ended = launcher.get("state", {}).get("terminated", {})
    return Pod(
        name=item["metadata"]["name"],
        uid=item["metadata"]["uid"],
        rank=int(item["metadata"]["labels"].get(INDEX, 0)),
        node=item["spec"].get("nodeName", ""),
        phase=status.get("phase", ""),
        ready=bool(launcher.get("ready")),
        ending="deletionTimestamp" in item["metadata"],
        code=ended.get("exitCode"),
        said=ended.get("message", ""),
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run by its name in a namespace; each property queries the cluster."""

    name: str
    space: Space

    @property
    def home(self) -> Path:
        return self.space.workspace / "runs" / self.name

    @property
    def jobset(self) -> Object:
        return self.space.kubectl.get("jobset", self.name)

    @property
    def restarts(self) -> tuple[int, int]:
        """Return the restarts of the JobSet: all, and those that count towards the limit."""
        status = self.jobset.get("status", {})
        return status.get("restarts", 0), status.get("restartsCountTowardsMax", 0)

    @property
    def suspended(self) -> bool:
        """Return whether the JobSet is suspended, that is, queued."""
        return bool(self.jobset["spec"].get("suspend"))

    @property
    def workload(self) -> Object | None:
        prefix = f"jobset-{self.name}-"
        found = self.space.kubectl.items("workloads.kueue.x-k8s.io")
        return next((w for w in found if w["metadata"]["name"].startswith(prefix)), None)

    @property
    def progress(self) -> Any:
        """Return the launcher's progress.json; empty until it exists."""
        try:
            return json.loads((self.home / "progress.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    @property
    def states(self) -> dict[str, str]:
        return {name: stage["state"] for name, stage in self.progress["stages"].items()}

    def pods(self, selector: str = GANG) -> list[Pod]:
        chosen = f"jobset.sigs.k8s.io/jobset-name={self.name},{selector}"
        found = [pod_of(item) for item in self.space.kubectl.items("pods", selector=chosen)]
        return sorted(found, key=lambda pod: pod.rank)

    def state(self) -> Object:
        """Return the state that an unchanged or refused upgrade or sync must not change."""
        jobset = self.jobset
        return {
            "uid": jobset["metadata"]["uid"],
            "generation": jobset["metadata"]["generation"],
            "spec": jobset["spec"],
            "pods": [(pod.uid, pod.phase) for pod in self.pods()],
        }

    def log(self, pod: str) -> str:
        return self.space.kubectl.run("logs", pod)

    def running(self, count: int, *, seconds: float = 60, but: Iterable[str] = ()) -> list[Pod]:
        """Wait for ``count`` running pods of the gang whose uids are not in ``but``."""

        def probe() -> list[Pod] | None:
            found = [pod for pod in self.pods() if pod.uid not in but and not pod.ending]
            return found if [pod.phase for pod in found] == ["Running"] * count else None

        return until(f"{count} pods of {self.name} run", probe, seconds=seconds)

    def training(self, attempt: int = 1, *, but: Iterable[str] = ()) -> list[Pod]:
        """Wait until both ranks' stand-in trainers have started; return their pods."""
        folder = self.home / "attempts" / str(attempt)

        def started() -> bool:
            return len(list(folder.rglob("argv.json"))) == 2

        until(f"both ranks of {self.name} train in attempt {attempt}", started, seconds=60)
        return self.running(2, but=but)

    def ended(self, state: str = "Completed", *, seconds: float = 90) -> Object:
        def probe() -> Object | None:
            jobset = self.jobset
            return jobset if jobset.get("status", {}).get("terminalState") else None

        jobset = until(f"JobSet {self.name} ends", probe, seconds=seconds)
        assert jobset["status"]["terminalState"] == state, jobset["status"]
        return jobset

    def condition(self, kind: str, status: str = "True", *, seconds: float = 60) -> Object:
        def probe() -> Object | None:
            conditions = (self.workload or {}).get("status", {}).get("conditions", [])
            match = (c for c in conditions if (c["type"], c["status"]) == (kind, status))
            return next(match, None)

        return until(f"Workload of {self.name} is {kind}={status}", probe, seconds=seconds)

    def conditions(self) -> dict[str, tuple[str, str]]:
        found = (self.workload or {}).get("status", {}).get("conditions", [])
        return {c["type"]: (c["status"], c.get("reason", "")) for c in found}
