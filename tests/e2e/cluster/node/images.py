"""Import image archives into the containerd of each node; there is no registry."""

import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.cluster import image_archive
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.node import containerd, namespaces


def load(layout: Layout, file: Path) -> None:
    """Import an image archive on every node."""
    image_archive.check(file)
    with ThreadPoolExecutor() as pool:
        parts = [pool.submit(load_on, layout, node, file) for node in layout.nodes]
    for part in parts:
        part.result()


def load_on(layout: Layout, node: Node, file: Path) -> None:
    """Import an image archive on one node, as stdin: the node may not see the file's folder."""
    inside = namespaces.enter(namespaces.first(layout, node))
    ctr = ("ctr", f"--address={containerd.SOCKET}", "--namespace=k8s.io", "images", "import", "-")
    with file.open("rb") as content:
        run((*inside, *ctr), file=content)


def load_pause(layout: Layout, node: Node) -> None:
    """Import the sandbox image of pods, made from the built program ``pause``."""
    layer, target = node.folder / "layer.tar", node.folder / "pause.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(layout.bin / "pause", "pause")
    image_archive.write(target, containerd.PAUSE, layer, {"Entrypoint": ["/pause"]})
    load_on(layout, node, target)
