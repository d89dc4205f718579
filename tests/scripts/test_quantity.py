"""Quantities and resource lists of pods."""

from decimal import Decimal
from typing import Any

import pytest

from scripts.problem import Problem
from scripts.quantity import format_amount, parse_quantity, pod_requests


@pytest.mark.parametrize(
    ("text", "number"),
    [("491520Mi", 480 * 2**30), ("500m", Decimal("0.5")), ("2e3", 2000), ("8", 8), (8, 8)],
)
def test_a_quantity_is_a_number(text: object, number: object) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "five", "1Zi", "1 Gi", "nan"])
def test_another_word_is_refused(text: str) -> None:
    with pytest.raises(Problem, match=repr(text)):
        parse_quantity(text)


def test_requests_are_the_containers_sum_or_an_init_container_if_that_is_more() -> None:
    def container(**resources: Any) -> dict[str, Any]:
        return {"resources": resources}

    pod = {
        "containers": [
            container(requests={"cpu": "1", "memory": "1Gi"}),
            container(limits={"cpu": "500m", "x/gpu": 8}, requests={"x/gpu": 8}),
        ],
        "initContainers": [container(requests={"cpu": "2"})],
        "overhead": {"cpu": "100m"},
    }
    wanted = {"cpu": Decimal("2.1"), "memory": Decimal(2**30), "x/gpu": Decimal(8)}
    assert pod_requests(pod) == wanted
    assert format_amount("memory", Decimal(3 * 2**29)) == "1.5Gi"
