"""The network stays on this machine, and takes nothing of it with it."""

from pathlib import Path

from tests.e2e.cluster.layout import SERVICES, Layout
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
    assert f"route add unreachable {SERVICES}" in BRIDGE


def test_the_cable_is_named_after_the_bridge_so_that_a_crash_leaves_it_findable() -> None:
    lines = network.connect(LAYOUT, NODE, 4711).splitlines()
    assert lines[0] == "link add mdpo0-2 type veth peer name eth0 netns 4711"
    assert lines[1] == "link set mdpo0-2 master mdpo0 up"
    longest = Layout(size=99).nodes[-1]
    assert len(network.port(LAYOUT, longest)) <= 15  # the kernel's limit


def test_to_remove_a_link_that_is_not_there_is_no_fault() -> None:
    assert "lo" in network.links()
    network.remove_link("mdpo0-none")
