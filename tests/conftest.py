import gc
import os
import re
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest

from scripts import archive, helm
from scripts.helm import Release
from tests.chart.helm import call_of_release
from tests.durations import Durations
from tests.launchers import warm

# a busy machine is not a slow test
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")


ONLY_REAL = re.compile(r"\.tools/(train|oracle|engines|trackers)")
"""Folders that only `make test-real` and `make check` need."""
STARTS_TORCH = {"oracle", "tokenizer"}
"""Fixtures."""


def pytest_configure(config: pytest.Config) -> None:
    """Render the launcher of this checkout, however pytest was started."""
    archive.build()
    # Tests share the cores: threads that wait for each other take most of a training's time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    config.pluginmanager.register(Durations(config))
    warm.begin(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options behind `make golden`, `make durations` and `make check`."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption("--update-durations", action="store_true", help="rewrite durations.json")
    parser.addoption("--keep-durations", action="store_true", help="fail over durations.json")


@pytest.fixture(autouse=True, scope="session")
def _rendered_in_one_process() -> Iterator[None]:
    """Render by the renderer what ``scripts.helm`` renders: Helm takes 0.2 s of a processor.

    The launcher was packed when the session began.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "_call", call_of_release)
        patch.setattr(helm, "archive", SimpleNamespace(build=lambda root: None))
        yield


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Tell whether to rewrite the golden files instead of comparing them."""
    return bool(request.config.getoption("--update-golden"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute parts of files (``make`` does not choose another way)."""
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Do not look for garbage among collected tests, which stay: an eighth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs ms-swift or torch: the tests that are skipped without them, or use them."""
    for item in items:
        reasons = (str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif"))
        if (
            any(map(ONLY_REAL.search, reasons))
            or item.get_closest_marker("demo")
            or STARTS_TORCH & set(getattr(item, "fixturenames", ()))
        ):
            item.add_marker("real")
    # The real run is long, and everything that it shows wrong is wrong elsewhere first.
    items.sort(key=lambda item: item.get_closest_marker("demo") is not None)
