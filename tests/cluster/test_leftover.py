"""The network of a dead cluster does not block the next one; that of a running one does."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node import network
from tests.e2e.cluster.processes import leftover


@pytest.fixture
def ours(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path / "ours")


@pytest.fixture
def other(ours: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """The layout of another checkout, whose cluster made the bridge; no process of it runs."""
    layout = Layout(home=tmp_path / "other")
    link = tmp_path / "net" / layout.bridge
    link.mkdir(parents=True)
    (link / "ifalias").write_text(f"{layout.home}\n", encoding="utf-8")
    layout.home.mkdir()
    (layout.home / "lock").touch()
    monkeypatch.setattr(network, "LINKS", tmp_path / "net")
    monkeypatch.setattr(network, "links", lambda: ["lo", layout.bridge])
    return layout


def test_the_network_of_killed_processes_is_abandoned(ours: Layout, other: Layout) -> None:
    supervise.hand_over(other, "etcd", 2**22 + 1)  # above the kernel's largest process id
    assert leftover.abandoned(ours)


def test_the_network_of_a_deleted_checkout_is_abandoned(ours: Layout, other: Layout) -> None:
    (other.home / "lock").unlink()
    other.home.rmdir()
    assert leftover.abandoned(ours)


def test_a_process_that_runs_keeps_the_network(ours: Layout, other: Layout) -> None:
    supervise.hand_over(other, "etcd", os.getpid())
    assert not leftover.abandoned(ours)


def test_a_node_that_runs_keeps_the_network(
    ours: Layout, other: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "links", lambda: ["lo", other.bridge, f"{other.bridge}-1"])
    assert not leftover.abandoned(ours)


def test_a_start_in_progress_keeps_the_network(ours: Layout, other: Layout) -> None:
    with (other.home / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not leftover.abandoned(ours)


def test_its_own_network_is_left_to_down(other: Layout) -> None:
    assert not leftover.abandoned(other)


def test_a_bridge_without_an_owner_is_left_alone(ours: Layout, other: Layout) -> None:
    (network.LINKS / other.bridge / "ifalias").write_text("", encoding="utf-8")
    assert not leftover.abandoned(ours)
