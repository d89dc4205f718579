"""The predicted start of gangs against the actual one, with real Kueue.

The gangs are Workloads without pods, which this module ends after their time: durations are those
of training divided by some thousand, and starting and ending pods would take half of them.
"""

import csv
import math
import os
import random
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.doctor.api import WORKLOADS, Api, Object, connect
from scripts.observe.cluster import QUEUES, condition, is_true
from scripts.observe.view import unix_time
from scripts.problem import Problem
from scripts.start.forecast import Known, Start, forecast
from tests.e2e.bench import api, queues
from tests.e2e.bench.clock import wait_for
from tests.e2e.cluster.layout import Layout

SEED = 11
GANGS = 100
SIZES = (8, 8, 8, 16, 16, 32)
QUEUE_GPUS = 32
SPACES = ("start-one", "start-two")
"""LocalQueues; their ClusterQueues share a cohort."""
SECONDS = (5.0, 25.0)
PRIORITIES = (0, 0, 0, 100, -100)
PROGRESS = 0.7
"""Share of the running gangs whose own estimate the forecast gets, as of those with files."""
LOOK_SECONDS, PREDICT_SECONDS = 0.5, 10.0
SHORTEST_WAIT = 10.0
"""Seconds; times of Kueue are whole seconds, which is 20 % of less."""
Item = dict[str, Any]


def replay(layout: Layout, table: Path) -> dict[str, Any]:
    """Submit all gangs at once; predict repeatedly, and compare when all have ended."""
    os.environ["KUBECONFIG"] = str(layout.kubeconfig)
    server = connect(None, queues.NAMESPACE)
    chance = random.Random(SEED)
    seconds = {f"start-{number:02}": chance.uniform(*SECONDS) for number in range(GANGS)}
    gangs = [_workload(name, each, chance) for name, each in seconds.items()]
    objects = _queues()
    api.apply(layout, [*objects, *gangs])
    seen: list[tuple[float, str, Start]] = []
    workloads: list[Object] = []
    predicted_at = 0.0

    def look() -> bool:
        nonlocal workloads, predicted_at
        workloads, now = server.get(WORKLOADS.path(queues.NAMESPACE)).items, time.time()
        for each in workloads:
            if _holds(each) and _reserved(each) + seconds[_name(each)] <= now:
                _end(server, each, now)
        if now > predicted_at + PREDICT_SECONDS:
            predicted_at = now
            known = _known(server, workloads, seconds, now)
            found = forecast(known, {_uid(each) for each in workloads}, now)
            names = {_uid(each): _name(each) for each in workloads}
            seen.extend((now, names[uid], start) for uid, start in found.items())
        return len(workloads) == GANGS and all(is_true(each, "Finished") for each in workloads)

    wait_for("all gangs ended", look, 560, LOOK_SECONDS)
    actual = {_name(each): _reserved(each) for each in workloads}
    api.delete(layout, [*objects, *gangs])
    return _compared(seen, actual, table)


def _compared(
    seen: list[tuple[float, str, Start]], actual: dict[str, float], table: Path
) -> dict[str, Any]:
    kept = [(now, name, start) for now, name, start in seen if actual[name] - now >= SHORTEST_WAIT]
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["gang", "earliest", "expected", "latest", "actual"])
        for now, name, start in kept:
            times = (start.earliest, start.expected, start.latest, actual[name])
            writer.writerow([name, *("" if t is None else round(t - now, 1) for t in times)])
    inside = [
        (start.earliest or math.inf) <= actual[name] <= (start.latest or math.inf)
        for _, name, start in kept
    ]
    errors = [
        abs(start.expected - actual[name]) / (actual[name] - now)
        for now, name, start in kept
        if start.expected is not None
    ]
    return {
        "gangs": len(actual),
        "predictions": len(kept),
        "inside": round(statistics.mean(inside), 3),
        "median_error": round(statistics.median(errors), 3),
        "without_expected": len(kept) - len(errors),
        "without_latest": sum(start.latest is None for _, _, start in kept),
        "longest_wait": round(max(actual[name] - now for now, name, _ in kept), 1),
    }


def _known(server: Api, workloads: list[Object], seconds: dict[str, float], now: float) -> Known:
    left = {}
    for each in workloads:
        chance = random.Random(_name(each))
        is_read, noise = chance.random() < PROGRESS, chance.uniform(0.92, 1.08)
        if _holds(each) and is_read:
            left[_uid(each)] = max(0.0, _reserved(each) + seconds[_name(each)] - now) * noise
    answers = {name: server.get(path).items for name, (path, _) in QUEUES.items()}
    return Known(
        cluster_queues=answers["list clusterqueues"],
        cohorts=answers["list cohorts"],
        flavors=answers["list resourceflavors"],
        local_queues=answers["list localqueues everywhere"],
        workloads=workloads,
        left=left,
    )


def _name(workload: Object) -> str:
    return str(workload["metadata"]["name"])


def _uid(workload: Object) -> str:
    return str(workload["metadata"]["uid"])


def _reserved(workload: Object) -> float:
    return unix_time(condition(workload, "QuotaReserved").get("lastTransitionTime")) or 0.0


def _holds(workload: Object) -> bool:
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def _end(server: Api, workload: Object, now: float) -> None:
    """Set the condition that Kueue sets when the job of a Workload has ended."""
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "ended"}
    ended["lastTransitionTime"] = datetime.fromtimestamp(int(now), UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    path = WORKLOADS.path(queues.NAMESPACE, f"{_name(workload)}/status")
    made = {"status": {"conditions": [*workload["status"]["conditions"], ended]}}
    answer = server.patch(path, made)
    if not answer.found:
        raise Problem(f"{_name(workload)} cannot be ended: {answer.why}")


def _workload(name: str, seconds: float, chance: random.Random) -> Item:
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "launcher", "image": "none", "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container]}
    podset = {"name": "node", "count": chance.choice(SIZES) // 8, "template": {"spec": pod}}
    spec = {
        "queueName": chance.choice(SPACES),
        "priority": chance.choice(PRIORITIES),
        "podSets": [podset],
        # Kueue ends a gang at its limit, and this module some tenths of a second after its time.
        "maximumExecutionTimeSeconds": round(seconds / chance.uniform(0.5, 0.9)) + 3,
    }
    return queues.item("Workload", name, spec, queues.NAMESPACE)


def _queues() -> list[Item]:
    """Return two ClusterQueues of one cohort, so that each borrows what the other has left."""
    limits = {"cpu": "1k", "memory": "1Ti", "nvidia.com/gpu": str(QUEUE_GPUS)}
    quota = [{"name": name, "nominalQuota": limits[name]} for name in queues.COVERED]
    group = {
        "coveredResources": list(queues.COVERED),
        "flavors": [{"name": "start", "resources": quota}],
    }
    spec = {"namespaceSelector": {}, "cohortName": "start", "resourceGroups": [group]}
    found = [queues.item("ResourceFlavor", "start", {})]
    for name in SPACES:
        found.append(queues.item("ClusterQueue", name, spec))
        found.append(queues.item("LocalQueue", name, {"clusterQueue": name}, queues.NAMESPACE))
    return found
