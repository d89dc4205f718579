"""Each unmet requirement is reported in one line, with its remedy, before anything starts."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.helm import ROOT
from scripts.problem import Problem
from tests.e2e.cluster import cluster
from tests.e2e.cluster.cluster import State
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import conflicts, requirements

LAYOUT = Layout()
V1 = "".join(f"cgroup /cg/{name} cgroup rw,{name} 0 0\n" for name in sorted(requirements.V1))
V2 = "cgroup2 /cg cgroup2 rw 0 0\n"


def address(name: str, local: str, length: int) -> dict[str, object]:
    info = {"family": "inet", "local": local, "prefixlen": length}
    return {"ifname": name, "addr_info": [info]}


def test_nothing_is_missing_where_all_is_there() -> None:
    assert requirements.missing_programs(lambda name: True) == []
    assert requirements.disk_full(requirements.FREE_BYTES) == []
    assert requirements.private_folder(Path("/home/me/checkout")) == []
    assert conflicts.taken_ports([]) == []


def test_missing_programs_are_named_with_each_package_once() -> None:
    (line,) = requirements.missing_programs(lambda name: name not in {"ctr", "containerd", "ip"})
    assert line.startswith("containerd, ctr, ip not found; run `apt-get install")
    assert "recommends containerd iproute2`" in line


def test_tools_that_are_not_built_are_named(tmp_path: Path) -> None:
    (line,) = requirements.not_built(Layout(home=tmp_path))
    assert "kube-apiserver" in line and "kubelet" in line and "make cluster" in line


def test_the_bridge_of_another_checkout_is_named() -> None:
    bare: dict[str, object] = {"ifname": "mdpo0", "addr_info": []}
    for link in (address("mdpo0", "10.201.0.1", 16), bare):
        (line,) = conflicts.taken_networks(LAYOUT, [link], [])
        assert "bridge mdpo0 exists" in line and "make cluster-down" in line
    (line,) = conflicts.taken_networks(LAYOUT, [bare | {"ifalias": "/home/other"}], [])
    assert "of the cluster in /home/other" in line


@pytest.mark.parametrize(
    ("links", "routes", "who"),
    [
        ([address("tun0", "10.201.7.3", 24)], [], "interface tun0 has 10.201.7.0/24"),
        ([], [{"dst": "10.96.0.0/12", "dev": "wg0"}], "a route (wg0) has 10.96.0.0/12"),
        ([], [{"dst": "10.96.5.0/24", "type": "unreachable"}], "a route (unreachable)"),
        ([], [{"dst": "10.201.3.9", "dev": "eth0"}], "a route (eth0) has 10.201.3.9/32"),
    ],
)
def test_addresses_in_use_are_named_with_their_user(
    links: list[dict[str, object]], routes: list[dict[str, object]], who: str
) -> None:
    (line,) = conflicts.taken_networks(LAYOUT, links, routes)
    assert line.startswith(who)


def test_other_networks_are_no_conflict() -> None:
    links = [address("lo", "127.0.0.1", 8), address("eth0", "192.0.2.2", 24)]
    links.append({"ifname": "eth1", "addr_info": [{"family": "inet6", "local": "fd00::2"}]})
    routes = [{"dst": "default", "dev": "eth0"}, {"dst": "172.17.0.0/16", "dev": "docker0"}]
    assert conflicts.taken_networks(LAYOUT, links, routes) == []


@pytest.mark.parametrize(("host", "count"), [("0.0.0.0", 1), ("127.0.0.1", 0)])
def test_a_port_that_a_program_holds_on_all_addresses_is_found_with_its_holder(
    host: str, count: int
) -> None:
    with socket.socket() as server:
        server.bind((host, 0))
        server.listen()
        port = server.getsockname()[1]
        holders = [it for it in conflicts.listeners() if it.port == port]
        assert [it.protocol for it in holders] == ["tcp"] * count
        own = f"(process {os.getpid()})"
        assert all(conflicts.owner(it.inode).endswith(own) for it in holders)


def test_only_the_clusters_ports_matter() -> None:
    found = [conflicts.Listener(protocol="tcp", port=port, inode="0") for port in (6443, 22)]
    found += [conflicts.Listener(protocol="udp", port=port, inode="0") for port in (6443, 53)]
    first, second = conflicts.taken_ports(found)
    assert first.startswith("tcp port 6443 is taken on all addresses by ")
    assert second.startswith("udp port 53 is taken")


def test_cgroups_of_either_version_do() -> None:
    assert requirements.no_cgroups(V1, lambda _: True, lambda _: set()) == []
    assert requirements.no_cgroups(V2, lambda _: True, lambda _: set(requirements.V2)) == []


@pytest.mark.parametrize(
    ("mounts", "writable", "missing"),
    [
        ("", True, "cpu, cpuacct"),
        (V1, False, "cpu, cpuacct"),
        (V2, True, "cpu, cpuacct"),
        (V1.replace("cgroup /cg/pids cgroup rw,pids 0 0\n", V2), True, "read-only: pids)"),
    ],
    ids=["none", "read-only", "v2 without controllers", "v1 without pids"],
)
def test_unusable_cgroups_are_refused(mounts: str, writable: bool, missing: str) -> None:
    (line,) = requirements.no_cgroups(mounts, lambda folder: writable, lambda folder: set())
    assert missing in line


def test_a_user_other_than_root_is_refused() -> None:
    if os.geteuid() != 0:
        with pytest.raises(Problem, match="needs root"):
            requirements.verify(LAYOUT)
        return
    code = (
        "import os; from tests.e2e.cluster.processes import requirements;"
        "from tests.e2e.cluster.layout import Layout;"
        "os.seteuid(65534); requirements.verify(Layout())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs root on Linux" in done.stderr.splitlines()[-1]


def test_without_a_cluster_the_command_to_start_one_is_named(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path)
    assert State.read(layout) is None
    with pytest.raises(Problem, match="no cluster is up; run `make cluster`"):
        State.require(layout)
    State(backend="processes", nodes=2).write(layout)
    assert State.require(layout) == State(backend="processes", nodes=2)


def test_a_folder_with_mounts_in_it_is_never_removed() -> None:
    places = ("/dev/a / ext4", "tmpfs /x/run/nodes/node-1 tmpfs", "tmpfs /x/runs t")
    mounts = "".join(f"{place} rw 0 0\n" for place in places)
    assert cluster.mounts_below(mounts, Path("/x/run")) == ["/x/run/nodes/node-1"]
