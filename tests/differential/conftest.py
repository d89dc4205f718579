"""One oracle for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.asked import PACKAGES, PYTHON, Oracle, start


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    if not PYTHON.exists() or not PACKAGES.exists():
        pytest.skip("no .tools/train or .tools/oracle: `make setup`")
    with start(tmp_path_factory.mktemp("oracle")) as running:
        yield running
