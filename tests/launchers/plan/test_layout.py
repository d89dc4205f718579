"""Layouts: replicas, and how layers are spread over pipeline stages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.exits import LaunchError
from launchers.plan.layout import Layout


@pytest.mark.parametrize(
    ("pp", "ends", "expected"),
    [
        (1, {}, (48,)),
        (2, {}, (24, 24)),
        (4, {"first_layers": 9}, (9, 13, 13, 13)),
        (4, {"first_layers": 11, "last_layers": 9}, (11, 14, 14, 9)),
        (2, {"first_layers": 26, "last_layers": 22}, (26, 22)),
        (7, {"embedding_is_layer": True}, (6, 7, 7, 7, 7, 7, 7)),
        (5, {"embedding_is_layer": True, "loss_is_layer": True}, (9, 10, 10, 10, 9)),
    ],
)
def test_layers_are_spread(pp: int, ends: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert Layout(nodes=1, gpus_per_node=pp, pp=pp, **ends).stage_layers(48) == expected


@pytest.mark.parametrize(
    ("pp", "ends"), [(5, {}), (3, {"first_layers": 9}), (2, {"first_layers": 9, "last_layers": 9})]
)
def test_layers_that_do_not_fit_name_the_flag(pp: int, ends: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match=r"recipe\.args\.pipeline_model_parallel_size: 48 layers"):
        Layout(nodes=1, gpus_per_node=pp, pp=pp, **ends).stage_layers(48)


@given(pp=st.integers(1, 16), each=st.integers(1, 12))
def test_no_layer_is_lost(pp: int, each: int) -> None:
    spread = Layout(nodes=1, gpus_per_node=pp, pp=pp).stage_layers(pp * each)
    assert (len(spread), sum(spread)) == (pp, pp * each)
