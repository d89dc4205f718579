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


def test_the_host_reaches_the_pods_of_each_node_over_that_node() -> None:
    routes = [line for line in BRIDGE if " via " in line]
    assert routes == [
        f"route add 10.201.{number}.0/24 via 10.201.0.1{number} dev mdpo0" for number in (1, 2, 3)
    ]


def test_a_node_reaches_the_pods_of_the_others_over_them() -> None:
    assert "address add 10.201.0.12/24 dev eth0" in INSIDE
    assert "route add 10.201.1.0/24 via 10.201.0.11" in INSIDE
    assert "route add 10.201.3.0/24 via 10.201.0.13" in INSIDE
    assert not [line for line in INSIDE if "10.201.2.0/24" in line]


def test_a_node_has_a_route_that_kube_proxy_can_rewrite() -> None:
    assert f"route add {SERVICES} via 10.201.0.1" in INSIDE


def test_the_cable_is_named_after_the_bridge_so_that_a_crash_leaves_it_findable() -> None:
    lines = network.connect(LAYOUT, NODE, 4711).splitlines()
    assert lines[0] == "link add mdpo0-2 type veth peer name eth0 netns 4711"
    assert lines[1] == "link set mdpo0-2 master mdpo0 up"
    longest = Layout(size=99).nodes[-1]
    assert len(network.port(LAYOUT, longest)) <= 15  # the kernel's limit


def test_to_remove_a_link_that_is_not_there_is_no_fault() -> None:
    assert "lo" in network.links()
    network.remove_link("mdpo0-none")
