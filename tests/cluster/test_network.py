"""The network stays on this machine, and takes nothing of it with it."""

from pathlib import Path

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node import network

LAYOUT = Layout(home=Path("/home/someone/checkout/.tools/cluster"))
NODE = LAYOUT.nodes[1]
BRIDGE = network.bridge(LAYOUT).splitlines()
INSIDE = network.inside(LAYOUT, NODE).splitlines()


def test_no_side_has_a_default_route_or_forwards_for_the_other() -> None:
    text = "\n".join((*BRIDGE, *INSIDE))
    for word in ("default", "0.0.0.0", "nat", "masquerade", "forward"):
        assert word not in text


def test_what_is_not_there_is_unreachable_instead_of_outside() -> None:
    assert f"route add unreachable {LAYOUT.network}" in BRIDGE
    assert f"route add unreachable {LAYOUT.services}" in BRIDGE
