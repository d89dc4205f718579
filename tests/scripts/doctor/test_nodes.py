"""Node affinity, taints and label selectors as Kubernetes reads them."""

from typing import Any

import pytest

from scripts.doctor.nodes import selects, selects_node, tolerates, untolerated
from tests.scripts.doctor.healthy import node

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def required(*terms: Any) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": rule}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


HOSTNAME = "kubernetes.io/hostname"
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["host-1"]}]}


@pytest.mark.parametrize(
    ("pod", "is_chosen"),
    [
        ({}, True),
        ({"nodeSelector": {HOSTNAME: "host-1"}}, True),
        ({"nodeSelector": {HOSTNAME: "host-2"}}, False),
        (required(expression(HOSTNAME, "In", "host-2"), expression(HOSTNAME, "Exists")), True),
        (required(expression(HOSTNAME, "NotIn", "host-1")), False),
        (required(expression("gpus", "Gt", "4")), False),
        (required(expression("gpus", "DoesNotExist")), True),
        (required(BY_NAME), True),
        (required({}), False),
    ],
)
def test_nodes_are_chosen_by_selector_and_affinity(pod: dict[str, Any], is_chosen: bool) -> None:
    assert selects_node(pod, node("host-1")) is is_chosen


@pytest.mark.parametrize(
    ("toleration", "does"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "value": "no"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], does: bool) -> None:
    assert tolerates(toleration, GPU) is does
    left = [] if does else ["nvidia.com/gpu=present:NoSchedule"]
    assert untolerated([GPU], [toleration]) == left


def test_a_soft_taint_keeps_nothing_away() -> None:
    assert untolerated([{**GPU, "effect": "PreferNoSchedule"}], []) == []


def test_an_absent_selector_takes_nothing_and_an_empty_one_all() -> None:
    assert not selects(None, {"a": "1"})
    assert selects({}, {})
    assert selects({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "1"})
    assert not selects({"matchLabels": {"a": "1"}}, {})
