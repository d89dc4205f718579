"""Start and stop a node: its namespaces, and in them containerd, kubelet and kube-proxy.

Mounts, processes and listening sockets of a node are in its namespaces, at the usual paths and
ports.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import supervise
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.node import (
    cgroups,
    containerd,
    images,
    kube_proxy,
    kubelet,
    namespaces,
    network,
)

PARTS = ("kube-proxy", "kubelet", "containerd")


def start(layout: Layout, node: Node) -> None:
    """Start a node and wait until its kubelet has registered it."""
    for file, text in files(layout, node).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (node.folder / "log").mkdir()
    power_on(layout, node)


def stop(layout: Layout, node: Node) -> None:
    """Stop a node, in any state, and remove what it created."""
    power_off(layout, node)
    if node.folder.exists():
        shutil.rmtree(node.folder)


def power_on(layout: Layout, node: Node) -> None:
    """Start a node's programs; its disk is kept, its containers do not run."""
    cgroups.create(layout, node)
    supervise.start(layout, node.name, (*namespaces.CREATE, layout.bin / "pause"))
    first = namespaces.first(layout, node)
    inside = namespaces.enter(first)
    run((*inside, "sh", "-euc", namespaces.script(node)))
    run(network.BATCH, text=network.connect(layout, node, first))
    run((*inside, *network.BATCH), text=network.inside(layout, node))
    _start(layout, node, "containerd", containerd.argv(node))
    containerd.wait_ready(layout, node, first)
    images.load_pause(layout, node)
    _start(layout, node, "kube-proxy", kube_proxy.program(layout, node).argv)
    start_kubelet(layout, node)
    supervise.wait_ready(layout, kube_proxy.program(layout, node))


def power_off(layout: Layout, node: Node) -> None:
    """Kill everything that runs on a node and remove its network link; no-op if it is off."""
    namespaces.kill(layout, node)
    for part in PARTS:
        supervise.stop(layout, f"{node.name}-{part}", grace=0)
    network.remove_link(network.port(layout, node))
    cgroups.remove(layout, node)


def start_kubelet(layout: Layout, node: Node) -> None:
    program = kubelet.program(layout, node)
    _start(layout, node, "kubelet", program.argv)
    supervise.wait_ready(layout, program)
    kubelet.add_devices(layout, node)


def stop_kubelet(layout: Layout, node: Node) -> None:
    supervise.stop(layout, f"{node.name}-kubelet")


def files(layout: Layout, node: Node) -> dict[Path, str]:
    """Return text by path: configurations, and files that are mounted over the machine's own."""
    names = "".join(f"{it.address} {it.name}\n" for it in layout.nodes)
    return {
        **containerd.files(node),
        **kubelet.files(layout, node),
        node.folder / "hosts": f"127.0.0.1 localhost\n{names}",
        **{namespaces.tunable(node, it): f"{v}\n" for it, v in namespaces.TUNABLES.items()},
    }


def _start(layout: Layout, node: Node, part: str, argv: Sequence[str | Path]) -> None:
    """Start a program on a node and record its own process, not the nsenter that waits for it."""
    name = f"{node.name}-{part}"
    inside = namespaces.enter(namespaces.first(layout, node))
    process = supervise.start(layout, name, (*inside, *argv))
    supervise.hand_over(layout, name, namespaces.child(layout, process))
