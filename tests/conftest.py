"""What holds for all tests."""

import pytest

from scripts import archive


def pytest_configure() -> None:
    """Render the launcher of this checkout, however pytest was started."""
    archive.build()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The real run is long, and everything that it shows wrong is wrong elsewhere first.
    items.sort(key=lambda item: item.get_closest_marker("demo") is not None)
