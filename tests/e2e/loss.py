"""Loss of two nodes at once with three gangs: automatic recovery and manual remedies.

Each gang has one pod on a lost node and one on the third. ``back`` is on a node whose kubelet stops
and returns, the others on a node that is powered off: ``forced`` lets Kueue force-delete its pods,
``tainted`` waits for a manual taint. The gangs share nodes but none has two pods on one: each
requests more than half a host of a resource that the others hardly use.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.faults import OUT_OF_SERVICE, Faults
from tests.e2e.merge import merge
from tests.e2e.runs import Pod, Run
from tests.e2e.space import Space
from tests.e2e.until import until

BOUND = 20
"""restarts.nodeLostSeconds of the gang with the stopped kubelet: shorter than the default 60."""
SMALL: Object = {
    "gpusPerNode": 2,
    "recipe": {
        "args": {
            "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": 1,
            "expert_model_parallel_size": 2,
        }
    },
}
SPREAD: Mapping[str, Object] = {
    "back": {"resources": {"requests": {"cpu": "1100m"}}, "restarts": {"nodeLostSeconds": BOUND}},
    "tainted": {"resources": {"requests": {"memory": "14Gi"}, "limits": {"memory": "14Gi"}}},
    # Kueue waits for the grace period plus one minute.
    "forced": {
        "network": {"resourceCount": 5},
        "kueue": {"forceDeleteOnNodeFailure": True},
        "terminationGracePeriodSeconds": 5,
    },
}
GATES: Object = {"featureGates": {"FailureRecoveryPolicy": True}}


@dataclass(kw_only=True)
class Gang:
    run: Run
    before: list[Pod]
    lost: str
    """Name of its pod on the lost node."""
    restarts: tuple[int, int] = (0, 0)
    after: list[Pod] = field(default_factory=list)


@dataclass(kw_only=True)
class Loss:
    stopped: str
    """The node whose kubelet stopped."""
    cut: str
    """The node that was powered off."""
    gangs: dict[str, Gang]
    times: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def see(self, probes: Mapping[str, Callable[[], bool]], seconds: float) -> None:
        """Wait until each condition is true; record the first observation of each."""

        def look() -> bool:
            for what, probe in probes.items():
                if what not in self.times and probe():
                    self.note(what)
            return probes.keys() <= self.times.keys()

        until(" and ".join(probes), look, seconds=seconds, pause=0.5)

    def note(self, what: str) -> None:
        self.times[what] = time.monotonic() - self.began

    def between(self, first: str, second: str) -> float:
        return self.times[second] - self.times[first]


def watch(space: Space, faults: Faults) -> Loss:
    """Lose two nodes, apply the remedies, and return the observations."""
    faults.configure_kueue(GATES)
    stopped, cut, _ = space.cluster.nodes
    back = start(space, "back", avoid=cut, lost=stopped)
    tainted = start(space, "tainted", avoid=stopped, lost=cut)
    forced = start(space, "forced", avoid=stopped, lost=cut)
    faults.stop_kubelet(stopped)
    faults.power_off(cut)
    gangs = {"back": back, "tainted": tainted, "forced": forced}
    loss = Loss(stopped=stopped, cut=cut, gangs=gangs)
    loss.see(
        {
            "tainted: Terminating": lambda: ending(tainted),
            "forced: Terminating": lambda: ending(forced),
            "stopped: NotReady": lambda: not ready(space, stopped),
            "cut: NotReady": lambda: not ready(space, cut),
            "forced: gone": lambda: gone(forced),
            "back: Terminating": lambda: ending(back),
        },
        seconds=240,
    )
    loss.note("kubelet started")
    faults.start_kubelet(stopped)
    loss.see({"back: Running": lambda: anew(back), "forced: Running": lambda: anew(forced)}, 150)
    assert ending(tainted), "its pod hangs until someone acts"
    loss.note("taint")
    space.kubectl.run("taint", "node", cut, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
    loss.see({"tainted: Running": lambda: anew(tainted)}, 150)
    return loss


def start(space: Space, name: str, *, avoid: str, lost: str) -> Gang:
    """Start a gang that avoids a node, so that one of its pods is on the node that will be lost."""
    space.kubectl.run("cordon", avoid)
    _, run, pods = standin.train(space, merge(SMALL, SPREAD[name]), name=name)
    space.kubectl.run("uncordon", avoid)
    assert lost in {pod.node for pod in pods}, pods
    victim = next(pod.name for pod in pods if pod.node == lost)
    return Gang(run=run, before=pods, lost=victim)


def ready(space: Space, node: str) -> bool:
    conditions = space.kubectl.get("node", node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def ending(gang: Gang) -> bool:
    """Return whether the gang's pod on the lost node is terminating."""
    return any(pod.name == gang.lost and pod.ending for pod in gang.run.pods())


def gone(gang: Gang) -> bool:
    """Return whether the gang's pod on the lost node is gone."""
    return all(pod.name != gang.lost for pod in gang.run.pods())


def anew(gang: Gang) -> bool:
    """Return whether the gang runs in new pods; record them."""
    old = {pod.uid for pod in gang.before}
    gang.after = [pod for pod in gang.run.pods() if pod.uid not in old and not pod.ending]
    gang.restarts = gang.run.restarts
    return [pod.phase for pod in gang.after] == ["Running"] * 2
