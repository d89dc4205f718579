"""Layouts: replicas, and how layers are spread over pipeline stages."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.exits import LaunchError
from launchers.plan.layout import KINDS, Layout, groups, size, spread, stages_of_node


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


LAYOUTS = [
    Layout(nodes=2, gpus_per_node=8, tp=4, pp=2, ep=8),
    Layout(nodes=2, gpus_per_node=8, tp=2, pp=2, cp=2, ep=2, etp=2),
    Layout(nodes=3, gpus_per_node=4, tp=2, pp=3, ep=4),
    Layout(nodes=1, gpus_per_node=1),
]


def counted(layout: Layout, kind: str) -> set[tuple[int, ...]]:
    """Groups by counting through the axes, the first one fastest."""
    expert = kind in ("etp", "ep", "edp")
    order = ("etp", "ep", "edp", "pp") if expert else ("tp", "cp", "dp", "pp")
    slowest_first = [range(size(layout, axis)) for axis in reversed(order)]
    found: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(product(*slowest_first)):
        others = tuple(at for axis, at in zip(reversed(order), place, strict=True) if axis != kind)
        found.setdefault(others, []).append(rank)
    return {tuple(ranks) for ranks in found.values()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_those_of_counting_through_the_axes(layout: Layout, kind: str) -> None:
    made = groups(layout, kind)
    assert set(made) == counted(layout, kind)
    assert sorted(rank for group in made for rank in group) == list(range(layout.world))


def test_experts_over_two_hosts_spread_over_two_nodes() -> None:
    wide = Layout(nodes=2, gpus_per_node=8, ep=16)
    assert spread(wide, "ep") == 2
    assert spread(wide, "tp") == 1
    halves = Layout(nodes=2, gpus_per_node=8, pp=2, ep=8)
    assert (spread(halves, "ep"), spread(halves, "pp")) == (1, 2)


def test_a_node_may_hold_several_stages_and_a_stage_several_nodes() -> None:
    four = Layout(nodes=2, gpus_per_node=8, pp=4)
    assert [stages_of_node(four, node) for node in (0, 1)] == [(0, 1), (2, 3)]
    one = Layout(nodes=4, gpus_per_node=8, pp=2)
    assert [stages_of_node(one, node) for node in range(4)] == [(0,), (0,), (1,), (1,)]
