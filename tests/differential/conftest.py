from collections.abc import Iterator

import pytest

from tests.differential.asked import Oracle, start
from tests.launchers.training_environment import ORACLE, PYTHON


@pytest.fixture(scope="module")  # tests of other files may end all processes of the worker
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    if not PYTHON.exists() or not ORACLE.exists():
        pytest.skip("no .tools/train or .tools/oracle: `make setup`")
    with start(tmp_path_factory.mktemp("oracle")) as running:
        yield running
