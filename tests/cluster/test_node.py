"""Nodes: mounts, files and command lines of their programs."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.problem import Problem
from tests.e2e.cluster import supervise
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node import cgroups, containerd, kube_proxy, kubelet, lifecycle, namespaces

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


def test_the_script_is_one_that_a_shell_reads_also_with_a_space_in_the_path() -> None:
    script = namespaces.script(NODE)
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert f"mount --bind '{NODE.folder}/lib' /var/lib\n" in script


def test_kubelet_reads_the_settings_that_it_wants_and_so_changes_none_of_the_machine() -> None:
    script = namespaces.script(NODE)
    for name, value in namespaces.TUNABLES.items():
        file = namespaces.tunable(NODE, name)
        assert FILES[file] == f"{value}\n"
        assert f"'{file}' /proc/sys/{name}\n" in script


def test_a_node_has_its_own_proc_before_it_writes_there() -> None:
    lines = namespaces.script(NODE).splitlines()
    written = [number for number, line in enumerate(lines) if "/proc/sys" in line]
    assert lines.index("mount -t proc proc /proc") < min(written)


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


def test_two_checkouts_have_different_groups_so_that_no_kubelet_kills_the_others_pods() -> None:
    other = Layout(home=Path("/home/someone/else/.tools/cluster"))
    assert cgroups.group(LAYOUT, NODE) != cgroups.group(other, other.nodes[1])
    assert cgroups.group(LAYOUT, NODE) == cgroups.group(Layout(home=LAYOUT.home), NODE)


def test_a_mixed_machine_has_hierarchies_of_both_versions() -> None:
    first = [str(path) for path in cgroups.hierarchies(MIXED, "cgroup")]
    assert first == ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd"]
    assert [path.name for path in cgroups.hierarchies(MIXED, "cgroup2")] == ["unified"]


def test_what_runs_in_a_node_that_is_off_says_so(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path)
    with pytest.raises(Problem, match="node-1 does not run; start it, or run"):
        namespaces.first(layout, layout.nodes[0])


def test_the_children_of_a_process_are_found_and_none_of_one_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in namespaces.children(os.getpid())
    finally:
        child.communicate(b"\n")
    assert namespaces.children(child.pid) == []


def test_killing_the_first_process_ends_its_parent_and_forgets_both(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path)
    # A shell that waits for its child stands for unshare, which needs root.
    process = supervise.start(layout, "node-1", ["sh", "-c", "sleep 60; exit 1"])
    [first] = [namespaces.first(layout, layout.nodes[0])]
    namespaces.kill(layout, layout.nodes[0])
    assert supervise.start_time(first) is None
    assert not process.alive
    assert supervise.find(layout, "node-1") is None


def test_to_kill_a_node_that_is_off_is_no_fault(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path)
    namespaces.kill(layout, layout.nodes[0])


def test_a_failed_call_is_one_line_with_the_programs_own_words() -> None:
    script = "echo first >&2; echo last >&2; exit 3" + " #" * 100
    with pytest.raises(Problem) as caught:
        run(("sh", "-c", script))
    text = str(caught.value)
    assert text.endswith("failed: first; last")
    assert len(text.splitlines()) == 1
    assert len(text) < 150


def test_a_failed_call_that_said_nothing_gives_its_exit_status() -> None:
    with pytest.raises(Problem, match="`false` failed: exit status 1"):
        run(("false",))
