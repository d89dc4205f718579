"""The faults of the soak. Each returns whether it was injected; the run may be between attempts."""

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.e2e import standin
from tests.e2e.faults import Faults
from tests.e2e.soak.target import Target
from tests.e2e.space import Space
from tests.e2e.until import until

AWAY_SECONDS = 20.0
"""Time without an API server."""
HIGH_SECONDS = 10.0
"""Time that a run of higher priority trains."""
CONTROLLERS = ("jobset", "kueue")
GPUS = 8
"""Of the run of higher priority: what all disturbed runs have together."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    space: Space
    faults: Faults
    chance: random.Random
    number: int
    """Of the fault, for names."""


Each = Callable[[Scene, Target], bool]
All = Callable[[Scene, Sequence[Target]], bool]


def signalled(process: Callable[[Target, str], int | None], number: signal.Signals) -> Each:
    def act(scene: Scene, target: Target) -> bool:
        pod = target.pod(scene.chance)
        return pod is not None and target.send(process(target, pod.name), number)

    return act


def deleted(*words: str) -> Each:
    def act(scene: Scene, target: Target) -> bool:
        pod = target.pod(scene.chance)
        if pod is not None:
            scene.space.kubectl.run("delete", "pod", pod.name, "--wait=false", *words)
        return pod is not None

    return act


def drain(scene: Scene, target: Target) -> bool:
    """Drain the node of a pod of the run, and make it schedulable again."""
    pod = target.pod(scene.chance)
    if pod is None:
        return False
    words = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    chosen = f"--pod-selector=jobset.sigs.k8s.io/jobset-name={target.run.name}"
    try:
        scene.space.kubectl.run("drain", pod.node, *words, chosen, seconds=150)
    finally:
        scene.space.kubectl.run("uncordon", pod.node)
    return True


def preempt(scene: Scene, targets: Sequence[Target]) -> bool:
    """Preempt the disturbed runs by one of higher priority, which soon ends."""
    over = {"gpusPerNode": GPUS // 2, "kueue": {"priorityClass": "high"}}
    over["recipe"] = {"args": {"pipeline_model_parallel_size": 1}}
    release, run = standin.release(scene.space, f"high-{scene.number}", over, hold=True)
    release.install()
    try:
        run.running(2, seconds=180)
        time.sleep(HIGH_SECONDS)  # the preemption itself, not a wait for a condition
        standin.order(run, "succeed")
        run.ended()
    finally:
        release.uninstall()
    return all(_resumes(target) for target in targets)


def _resumes(target: Target) -> bool:
    until(f"{target.name} is admitted again", lambda: not target.run.suspended, seconds=180)
    return True


def api_away(scene: Scene, targets: Sequence[Target]) -> bool:
    scene.faults.stop_api()
    time.sleep(AWAY_SECONDS)  # the outage itself
    scene.faults.start_api()
    return bool(targets)


def restart_controllers(scene: Scene, targets: Sequence[Target]) -> bool:
    for name in CONTROLLERS:
        scene.faults.cluster.restart(name)
    return bool(targets)


EACH: dict[str, Each] = {
    "kill a training process": signalled(Target.trainer, signal.SIGKILL),
    "freeze a training process": signalled(Target.trainer, signal.SIGSTOP),
    "kill a launcher": signalled(Target.launcher, signal.SIGKILL),
    "freeze a launcher": signalled(Target.launcher, signal.SIGSTOP),
    "delete a pod": deleted(),
    "force-delete a pod": deleted("--grace-period=0", "--force"),
    "drain a node": drain,
}
"""Faults of one run, injected into each disturbed one."""
ALL: dict[str, All] = {
    "preempt": preempt,
    "API server away": api_away,
    "restart the controllers": restart_controllers,
}
"""Faults of the cluster, injected once."""


def order(chance: random.Random, count: int) -> list[str]:
    """Return the names of so many faults: each once in random order, then again."""
    names: list[str] = []
    while len(names) < count:
        names += chance.sample([*EACH, *ALL], len(EACH) + len(ALL))
    return names[:count]
