"""Set-up of all tests."""

from __future__ import annotations

import hypothesis
import pytest

from scripts import archive

# a busy machine is not a slow test
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")


def pytest_configure() -> None:
    """Render the launcher of this checkout, however pytest was started."""
    archive.build()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option behind `make golden`."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Tell whether to rewrite the golden files instead of comparing them."""
    return bool(request.config.getoption("--update-golden"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The real run is long, and everything that it shows wrong is wrong elsewhere first.
    items.sort(key=lambda item: item.get_closest_marker("demo") is not None)
