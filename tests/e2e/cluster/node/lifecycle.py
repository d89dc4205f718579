"""A node: namespaces of its own, and in them containerd, kubelet and kube-proxy.

All that a node mounts, starts and listens on is in its namespaces, at the usual paths and ports.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import programs, supervise
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.node import cgroups, containerd, kube_proxy, kubelet, namespaces, network
from tests.e2e.cluster.node import images as image

PARTS = ("kube-proxy", "kubelet", "containerd")


def start(layout: Layout, node: Node) -> None:
    """Start a node; returns when its kubelet has registered it.

    Raises:
        Problem: it does not start; what runs of it is left to be looked at.
    """
    for file, text in files(layout, node).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (node.folder / "log").mkdir()
    power_on(layout, node)


def stop(layout: Layout, node: Node) -> None:
    """End a node and remove what it made, in whatever state it is."""
    power_off(layout, node)
    if node.folder.exists():
        shutil.rmtree(node.folder)


def power_on(layout: Layout, node: Node) -> None:
    """Start a node's programs; what it had on its disk is there, its containers don't run."""
    cgroups.create(layout, node)
    supervise.start(layout, node.name, (*namespaces.CREATE, layout.bin / "pause"))
    first = namespaces.first(layout, node)
    inside = namespaces.enter(first)
    run((*inside, "sh", "-euc", namespaces.script(node)))
    run(network.BATCH, text=network.plug(layout, node, first))
    run((*inside, *network.BATCH), text=network.inside(layout, node))
    _start(layout, node, "containerd", containerd.argv(node))
    containerd.wait(layout, node, first)
    image.load_pause(layout, node)
    _start(layout, node, "kube-proxy", kube_proxy.program(layout, node).argv)
    start_kubelet(layout, node)
    programs.wait(layout, kube_proxy.program(layout, node))


def power_off(layout: Layout, node: Node) -> None:
    """Kill all that runs on a node, and take its cable; fine if it does not run."""
    namespaces.kill(layout, node)
    for part in PARTS:
        supervise.stop(layout, f"{node.name}-{part}", grace=0)
    network.unplug(network.port(layout, node))
    cgroups.remove(layout, node)


def start_kubelet(layout: Layout, node: Node) -> None:
    """Start a node's kubelet; returns when it is healthy and the node has its devices."""
    program = kubelet.program(layout, node)
    _start(layout, node, "kubelet", program.argv)
    programs.wait(layout, program)
    kubelet.give_devices(layout, node)


def stop_kubelet(layout: Layout, node: Node) -> None:
    """Stop a node's kubelet; its pods run on."""
    supervise.stop(layout, f"{node.name}-kubelet")


def files(layout: Layout, node: Node) -> dict[Path, str]:
    """Return what a node's programs read, and what lies over files of the machine."""
    names = "".join(f"{it.address} {it.name}\n" for it in layout.nodes)
    return {
        **containerd.files(node),
        **kubelet.files(layout, node),
        node.folder / "hosts": f"127.0.0.1 localhost\n{names}",
        **{namespaces.tunable(node, it): f"{v}\n" for it, v in namespaces.TUNABLES.items()},
    }


def _start(layout: Layout, node: Node, part: str, argv: Sequence[str | Path]) -> None:
    """Start a program on a node. nsenter only waits for it: the program itself is recorded."""
    name = f"{node.name}-{part}"
    inside = namespaces.enter(namespaces.first(layout, node))
    process = supervise.start(layout, name, (*inside, *argv))
    supervise.hand_over(layout, name, namespaces.child(layout, process))
