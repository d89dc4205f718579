"""Seconds that a pod stays bound to a lost node."""

import pytest

from tests.chart.helm import STAGED, Document, jobs, pod, render

TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GPU: Document = {"key": "nvidia.com/gpu", "operator": "Exists"}


def lost(seconds: int, *taints: str) -> list[Document]:
    rule = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    return [{"key": taint, **rule} for taint in taints]


def test_every_pod_leaves_a_lost_node_after_a_minute() -> None:
    documents = render(STAGED, {"tolerations": [GPU]})
    assert pod(documents)["tolerations"] == [GPU, *lost(60, *TAINTS)]
    for role in ("clone", "download"):
        assert pod(documents, role)["tolerations"] == lost(60, *TAINTS)


@pytest.mark.parametrize("seconds", [0, 3600, None])
def test_the_seconds_are_the_users_and_null_leaves_it_to_the_cluster(seconds: int | None) -> None:
    found = pod(render({"restarts": {"nodeLostSeconds": seconds}}))
    expected = None if seconds is None else lost(seconds, *TAINTS)
    assert found.get("tolerations") == expected


@pytest.mark.parametrize(
    "own, left",
    [
        ({"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}, TAINTS[1:]),
        ({"key": TAINTS[1], "operator": "Exists"}, TAINTS[:1]),
        ({"key": TAINTS[1], "operator": "Exists", "effect": "NoSchedule"}, TAINTS),
        ({"operator": "Exists"}, ()),
        ({"operator": "Exists", "effect": "NoSchedule"}, TAINTS),
    ],
)
def test_the_users_own_word_on_a_lost_node_holds(own: Document, left: tuple[str, ...]) -> None:
    assert pod(render({"tolerations": [own]}))["tolerations"] == [own, *lost(60, *left)]


def test_kueue_may_delete_hanging_pods_only_when_it_is_said() -> None:
    name = "kueue.x-k8s.io/safe-to-forcefully-delete"
    asked: Document = {"kueue": {"queue": "team", "forceDeleteOnNodeFailure": True}}
    for layer, expected in (({}, None), (asked, "true")):
        for job in jobs(render(STAGED, layer)).values():
            assert job["template"]["metadata"]["annotations"].get(name) == expected
