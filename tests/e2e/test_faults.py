"""Faults of the cluster that no other file shows: queue, image, ConfigMap, force deletion."""

from tests.e2e import queues, standin
from tests.e2e.chance import Chance
from tests.e2e.faults import patch
from tests.e2e.measured import measured
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.e2e.until import until

QUEUE = "clusterqueues.kueue.x-k8s.io"


def waiting_reasons(run: Run) -> set[str]:
    chosen = f"jobset.sigs.k8s.io/jobset-name={run.name}"
    statuses = [
        status
        for pod in run.space.kubectl.items("pods", selector=chosen)
        for status in pod["status"].get("containerStatuses", [])
    ]
    return {status["state"].get("waiting", {}).get("reason", "") for status in statuses}


def test_a_deleted_config_map_is_named_in_an_event_and_an_upgrade_brings_the_run_back(
    queued: Space, chance: Chance
) -> None:
    release, run, before = standin.train(queued)
    chance.wait()
    name = f"{run.name}-launchers"
    queued.kubectl.delete(f"configmap/{name}")
    queued.kubectl.run("delete", "pod", before[chance.rank].name, "--wait=false")

    def is_named() -> bool:
        events = queued.kubectl.items("events")
        return any(e["reason"] == "FailedMount" and name in e["message"] for e in events)

    until("an event names the ConfigMap", is_named, seconds=90)
    with measured("a deleted ConfigMap: helm upgrade to all pods running"):
        release.upgrade()
        run.running(2, seconds=180, but=[pod.uid for pod in before])
    standin.finish(run)


def test_hold_and_drain_ends_the_pods_and_the_run_resumes_for_free(
    queued: Space, chance: Chance
) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    patch(queued.kubectl, QUEUE, queued.name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    until("the run has no pods", lambda: run.suspended and not run.pods(), seconds=90)
    with measured("a held queue released: to all pods of the next attempt running"):
        patch(queued.kubectl, QUEUE, queued.name, {"spec": {"stopPolicy": "None"}})
        run.running(2, but=[pod.uid for pod in before])
    standin.finish(run)
    assert run.restarts[1] == 0


def test_a_quota_that_is_cut_does_not_touch_a_run_that_was_admitted(
    queued: Space, chance: Chance
) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    queues.make(queued, {"nvidia.com/gpu": "8"})
    standin.finish(run)
    assert [pod.uid for pod in run.pods()] == [pod.uid for pod in before]
    assert run.restarts == (0, 0)


def test_a_pod_that_is_deleted_by_force_restarts_the_gang(queued: Space, chance: Chance) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    words = ("--force", "--grace-period=0", "--wait=false")
    with measured("a pod deleted by force: to all pods of the next attempt running"):
        queued.kubectl.run("delete", "pod", before[chance.rank].name, *words)
        after = run.running(2, but=[pod.uid for pod in before])
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    standin.finish(run)


def test_an_image_that_cannot_be_pulled_leaves_the_run_waiting_and_uninstall_frees_it(
    queued: Space,
) -> None:
    image = {**standin.IMAGE, "tag": "does-not-exist", "pullPolicy": "Always"}
    release, run = standin.release(queued, "dpo", {"image": image})
    release.install()
    pulling = {"ErrImagePull", "ImagePullBackOff"}
    until("the pods cannot pull", lambda: bool(waiting_reasons(run) & pulling), seconds=90)
    assert run.restarts == (0, 0)
    release.uninstall()
    until("no pods are left", lambda: not run.pods(), seconds=60)
