"""Cases of the benchmark: one function each, returning seconds or rates as JSON fields."""

import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from scripts.helm import CHART, ROOT, find_helm, template
from scripts.problem import Problem
from tests.e2e.bench import api, kwok, queues
from tests.e2e.bench.clock import wait_for, watching
from tests.e2e.cluster.layout import RACK_LABEL, Layout

VALUES = ROOT / "tests" / "e2e" / "bench" / "values.yaml"
TOPOLOGY = (
    "kueue.topology.mode=preferred",
    f"kueue.topology.key={RACK_LABEL.replace('.', chr(92) + '.')}",
)


@dataclass(frozen=True, kw_only=True)
class Release:
    name: str
    pods: int
    queue: str
    sets: Sequence[str] = ()

    @property
    def settings(self) -> list[str]:
        batch = f"recipe.args.global_batch_size={8 * self.pods}"
        return [f"nodes={self.pods}", batch, f"kueue.queue={self.queue}", *self.sets]


def gang(layout: Layout, pods: int, deadline: float) -> dict[str, Any]:
    """Install one gang on fake nodes of 8 GPUs; seconds after `helm install` began."""
    release = Release(name=f"gang-{pods}", pods=pods, queue="fake", sets=TOPOLOGY)
    with watching(layout, queues.NAMESPACE) as clock:
        begun = time.monotonic()
        helm(layout, release, "install")
        installed = time.monotonic()
        bound = wait_for("bound", lambda: clock.all_of("bound", pods), deadline)
        running = wait_for("running", lambda: clock.all_of("running", pods), deadline)
        racks = {
            int(rank): int(host.split("-")[1]) // kwok.PER_RACK
            for rank, host in clock.hosts.items()
        }
        removed = time.monotonic()
        helm(layout, release, "uninstall")
        gone = wait_for("gone", lambda: no_pods(layout), deadline, 0.1)
    order = [racks[rank] for rank in sorted(racks)]
    return {
        "pods": pods,
        "gpus": 8 * pods,
        "helm": round(installed - begun, 3),
        "bound": round(bound - begun, 3),
        "running": round(running - begun, 3),
        "gone_after_uninstall": round(gone - removed, 3),
        "racks": len(set(order)),
        "ranks_in_topology_order": order == sorted(order),
    }


def drain(layout: Layout, jobsets: int, pods: int, deadline: float) -> dict[str, Any]:
    """Release all gangs of a held queue at once; their pods succeed as soon as they run."""
    names = [f"many-{number:03}" for number in range(jobsets)]
    settings = Release(name="", pods=pods, queue="fake", sets=TOPOLOGY).settings
    text = template("many", [VALUES], settings)
    items = [d for name in names for d in yaml.safe_load_all(text.replace("many", name)) if d]
    for item in items:
        item["metadata"]["namespace"] = queues.NAMESPACE
    api.patch(layout, "clusterqueue/fake", {"spec": {"stopPolicy": "Hold"}})
    submitting = time.monotonic()
    api.apply(layout, items)
    begun = time.monotonic()
    api.patch(layout, "clusterqueue/fake", {"spec": {"stopPolicy": "None"}})
    done = wait_for("completed", lambda: completed(layout) >= jobsets, deadline, 0.5)
    api.delete(layout, items)
    return {
        "jobsets": jobsets,
        "pods_each": pods,
        "submission": round(begun - submitting, 3),
        "completed": round(done - begun, 3),
        "jobsets_per_second": round(jobsets / (done - begun), 2),
    }


def installs(layout: Layout, times: int, deadline: float) -> dict[str, Any]:
    """Install gangs of two real pods, one after the other; seconds after `helm install` began."""
    bound, running = [], []
    for number in range(times):
        release = Release(name=f"two-{number}", pods=2, queue="real")
        with watching(layout, queues.NAMESPACE) as clock:
            begun = time.monotonic()
            helm(layout, release, "install")
            bound.append(wait_for("bound", lambda: clock.all_of("bound", 2), deadline) - begun)
            running.append(
                wait_for("running", lambda: clock.all_of("running", 2), deadline) - begun
            )
        helm(layout, release, "uninstall")
        wait_for("gone", lambda: no_pods(layout), deadline, 0.1)
    return {"installs": times, "bound": spread(bound), "running": spread(running)}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile (nearest rank) and extremes.

    >>> spread([1.0, 2.0, 3.0])
    {'p50': 2.0, 'p99': 3.0, 'min': 1.0, 'max': 3.0}
    """
    ordered = sorted(seconds)
    rank = -(-99 * len(ordered) // 100) - 1
    found = {"p50": statistics.median(ordered), "p99": ordered[rank]}
    found |= {"min": ordered[0], "max": ordered[-1]}
    return {name: round(value, 3) for name, value in found.items()}


def helm(layout: Layout, release: Release, verb: str) -> None:
    words = [str(find_helm()), verb, release.name, "--namespace", queues.NAMESPACE]
    words += [f"--kubeconfig={layout.kubeconfig}"]
    if verb == "install":
        words += [str(CHART), "--values", str(VALUES)]
        words += [word for setting in release.settings for word in ("--set", setting)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"helm {verb} {release.name} failed: {done.stderr.strip()}")


def no_pods(layout: Layout) -> bool:
    return not api.get(layout, f"/api/v1/namespaces/{queues.NAMESPACE}/pods?limit=1")["items"]


def completed(layout: Layout) -> int:
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{queues.NAMESPACE}/jobsets"
    found = api.get(layout, path)["items"]
    return [j.get("status", {}).get("terminalState") for j in found].count("Completed")
