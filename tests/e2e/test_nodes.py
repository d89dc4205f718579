"""Drained, lost and replaced nodes: lost work, manual remedies, and recovery times."""

import pytest

from launchers.gang.peer_monitor import SILENCE_LIMIT_SECONDS
from tests.e2e import queues, standin
from tests.e2e.chance import Chance
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.faults import Faults
from tests.e2e.kubectl import Kubectl
from tests.e2e.loss import BOUND, Loss, watch
from tests.e2e.measured import measured, note
from tests.e2e.space import Opened, Space

GRACE = 50
"""Seconds after which the controller manager marks a silent node unreachable (its default)."""
EARLY, SLACK = 20, 30
"""Margins in seconds: for reporting intervals, and for these and a busy machine."""


def test_a_drained_node_is_left_for_free(queued: Space, faults: Faults, chance: Chance) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    node = before[chance.rank].node
    with measured("drain: to the whole gang running on other nodes"):
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
        chosen = f"--pod-selector=jobset.sigs.k8s.io/jobset-name={run.name}"
        queued.kubectl.run("drain", node, *words, chosen)
        after = run.running(2, but=[pod.uid for pod in before])
    assert node not in {pod.node for pod in after}
    # A second one where the new pods are created before Kueue has chosen another node: it ends the
    # pod that is bound to the drained one (pkg/controller/tas/node_controller.go).
    assert run.restarts in ((1, 0), (2, 0))
    standin.finish(run)


@pytest.fixture(scope="module")
def loss(cluster: Cluster, kubectl: Kubectl, opened: Opened) -> Loss:
    """Loss of two nodes with all remedies; three minutes."""
    faults = Faults(cluster=cluster, kubectl=kubectl)
    with opened("loss") as made:
        standin.prepare(made)
        queues.make(made)
        try:
            seen = watch(made, faults)
        finally:
            faults.repair()
    return seen


def test_a_lost_node_costs_what_the_values_say(loss: Loss) -> None:
    for which in ("stopped", "cut"):
        seconds = note(f"node lost: NotReady ({which})", loss.times[f"{which}: NotReady"])
        assert -EARLY < seconds - GRACE < SLACK
    bound = note(
        "kubelet lost: NotReady to the pod Terminating",
        loss.between("stopped: NotReady", "back: Terminating"),
    )
    assert -EARLY < bound - BOUND < SLACK


def test_a_gang_continues_uncounted_when_its_node_comes_back(loss: Loss) -> None:
    took = loss.between("kubelet started", "back: Running")
    assert note("kubelet back: to the gang running", took) < 60
    assert loss.gangs["back"].restarts[1] == 0


def test_a_rank_of_a_dead_node_is_missed_by_its_peers(loss: Loss) -> None:
    """They end long before Kubernetes marks the node unreachable, and that restart counts."""
    seconds = note("power cut: to the pod Terminating", loss.times["tainted: Terminating"])
    assert seconds < SILENCE_LIMIT_SECONDS + SLACK
    assert loss.gangs["tainted"].restarts == (1, 1)


def test_a_gang_hangs_on_a_node_that_is_gone_until_someone_acts(loss: Loss) -> None:
    assert loss.between("tainted: Terminating", "taint") > 10
    took = loss.between("taint", "tainted: Running")
    assert note("out-of-service taint: to the gang running", took) < 60
    assert loss.cut not in {pod.node for pod in loss.gangs["tainted"].after}


def test_kueue_deletes_the_pods_of_a_dead_node_where_it_may(loss: Loss) -> None:
    took = loss.between("forced: Terminating", "forced: gone")
    # Kueue's fixed minute after the grace period, here 5 s.
    assert 60 < note("forceDeleteOnNodeFailure: Terminating to the pod gone", took) < 60 + SLACK
    assert loss.cut not in {pod.node for pod in loss.gangs["forced"].after}


def test_deleting_the_node_frees_a_gang(queued: Space, faults: Faults, chance: Chance) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    node = before[chance.rank].node
    faults.power_off(node)
    with measured("Node deleted at once after a power cut: to the gang running"):
        queued.kubectl.delete(f"node/{node}")
        after = run.running(2, seconds=150, but=[pod.uid for pod in before])
    assert node not in {pod.node for pod in after}
    standin.finish(run)
