"""Nodes: mounts, files and command lines of their programs."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node import cgroups, containerd, kube_proxy, kubelet, lifecycle

LAYOUT = Layout(home=Path("/home/some one/checkout/.tools/cluster"))
NODE = LAYOUT.nodes[1]
FILES = lifecycle.files(LAYOUT, NODE)
MIXED = """\
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
tmpfs /run tmpfs rw 0 0
"""


def test_all_files_of_a_node_are_in_its_own_folder() -> None:
    assert all(file.is_relative_to(NODE.folder) for file in FILES)


def test_containerd_writes_nothing_outside_the_nodes_own_folders() -> None:
    config = tomllib.loads(containerd.config(NODE))
    assert config["plugins"]["io.containerd.internal.v1.opt"]["path"].startswith("/var/lib/")
    assert kubelet.config(LAYOUT, NODE)["volumePluginDir"].startswith("/var/lib/")


def test_kubelet_takes_requests_of_the_clusters_own_servers_only() -> None:
    config = kubelet.config(LAYOUT, NODE)
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authentication"]["x509"] == {"clientCAFile": str(LAYOUT.pki / "ca.crt")}
    assert config["cgroupRoot"] == cgroups.group(LAYOUT, NODE)
    assert config["clusterDNS"] == ["10.201.0.1"]


def test_kube_proxy_leaves_the_machines_connection_table_alone() -> None:
    argv = [str(word) for word in kube_proxy.program(LAYOUT, NODE).argv]
    limits = [word.rpartition("=")[2] for word in argv if word.startswith("--conntrack")]
    assert limits == ["0", "0s", "0s"]


@pytest.mark.parametrize("other", [{"home": Path("/home/else/.tools/cluster")}, {"number": 2}])
def test_two_clusters_have_different_groups_so_that_no_kubelet_kills_the_others_pods(
    other: dict[str, Any],
) -> None:
    found = replace(LAYOUT, **other)
    assert cgroups.group(LAYOUT, NODE) != cgroups.group(found, found.nodes[1])
    assert cgroups.group(LAYOUT, NODE) == cgroups.group(Layout(home=LAYOUT.home), NODE)


def test_a_mixed_machine_has_hierarchies_of_both_versions() -> None:
    first = [str(path) for path in cgroups.hierarchies(MIXED, "cgroup")]
    assert first == ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd"]
    assert [path.name for path in cgroups.hierarchies(MIXED, "cgroup2")] == ["unified"]
