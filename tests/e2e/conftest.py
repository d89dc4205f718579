"""Fixtures of the tests on a real cluster, and the report of a failed test."""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts.problem import Problem
from tests.e2e import diagnosis, queues, space, standin
from tests.e2e.chance import CHOSEN, VARIABLE, Chance
from tests.e2e.cluster import cluster as clusters
from tests.e2e.cluster import kubectl as program
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.cluster.layout import NUMBER, Layout
from tests.e2e.faults import Faults
from tests.e2e.image import __main__ as image
from tests.e2e.kubectl import Kubectl
from tests.e2e.measured import MEASURED
from tests.e2e.space import OPEN, WRECKS, Opened, Space

FIRST = ("test_main_job", "test_remedies", "test_upgrade")
"""Modules of which one worker runs all tests, the longest first: the others fill the rest."""
LAST = ("test_control_plane", "test_nodes")
"""Modules that run last: they break and repair the cluster, and must not affect other tests."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "level(name): the Pod Security level of the namespace")
    if given := getattr(config, "workerinput", None):
        os.environ[NUMBER] = str(int(given["workerid"].removeprefix("gw")) + 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {stem: place - len(FIRST) for place, stem in enumerate(FIRST)}
    order |= {stem: place + 1 for place, stem in enumerate(LAST)}
    items.sort(key=lambda item: order.get(item.path.stem, 0))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"measured": MEASURED, "chosen": CHOSEN}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's times and choices for the summary."""
    said = getattr(node, "workeroutput", {})
    MEASURED.update(said.get("measured", {}))
    CHOSEN.extend(said.get("chosen", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        seen = [(each.name, diagnosis.report(each.kubectl)) for each in OPEN]
        report.sections += [(f"namespace {name}", text) for name, text in (*WRECKS, *seen)]
        WRECKS.clear()
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MEASURED:
        terminalreporter.section("measured")
    for what, seconds in MEASURED.items():
        terminalreporter.line(f"{seconds:7.1f} s  {what}")
    for choice in CHOSEN if VARIABLE in os.environ else ():
        terminalreporter.line(f"chosen: {choice}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The running cluster; the session stops if none was started."""
    try:
        found = clusters.connect()
        with alone(found.layout.kubeconfig):
            _load_image(found)
            yield found
    except Problem as problem:
        pytest.exit(str(problem), returncode=3)


@contextmanager
def alone(kubeconfig: Path) -> Iterator[None]:
    """Wait for another session on this cluster: they would use each other's nodes."""
    with kubeconfig.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Iterator[Kubectl]:
    """kubectl for the whole cluster, after creating the shared queue objects."""
    made = _kubectl(cluster)
    queues.shared(made)
    yield made
    space.await_gone(made, seconds=120)


def _load_image(cluster: Cluster) -> None:
    """Load the test image on the nodes unless present; `make e2e` builds it."""
    for node in _kubectl(cluster).items("nodes"):
        names = [
            name for entry in node["status"].get("images", []) for name in entry.get("names") or []
        ]
        if image.NAME not in names:
            cluster.load_image(image.ARCHIVE)
            return


def _kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(binary=program.binary(Layout()), kubeconfig=cluster.layout.kubeconfig)


@pytest.fixture
def empty(
    request: pytest.FixtureRequest, cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> Iterator[Space]:
    """A namespace with the Pod Security level of the test's mark; default privileged, for
    ib-shared."""
    marker = request.node.get_closest_marker("level")
    level = marker.args[0] if marker else "privileged"
    name = request.node.name.removeprefix("test_")
    with space.opened(cluster, kubectl, name, level, tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def opened(cluster: Cluster, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Opens a namespace that several tests share."""

    def open_space(name: str, level: str = "privileged") -> AbstractContextManager[Space]:
        return space.opened(cluster, kubectl, name, level, tmp_path_factory.mktemp(name))

    return open_space


@pytest.fixture
def unqueued(empty: Space) -> Space:
    """``space`` with a workspace and the stand-in trainer."""
    standin.prepare(empty)
    return empty


@pytest.fixture
def queued(unqueued: Space) -> Space:
    """``unqueued`` with the queue of the shipped values."""
    queues.make(unqueued)
    return unqueued


@pytest.fixture
def asked(cluster: Cluster, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig and kubectl of ``megatron_dpo`` in this process."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.layout.kubeconfig))
    monkeypatch.setenv("PATH", str(kubectl.binary.parent), prepend=os.pathsep)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Chance:
    """The rank and the moment of a fault, by its seed."""
    return Chance.of_test(request.node.name)


@pytest.fixture
def faults(cluster: Cluster, kubectl: Kubectl) -> Iterator[Faults]:
    """Faults of the cluster, repaired at the end of the test."""
    made = Faults(cluster=cluster, kubectl=kubectl)
    yield made
    made.repair()
