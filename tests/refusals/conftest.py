"""The golden wordings: one of each id, of its first case."""

from collections.abc import Iterator

import pytest
import yaml

from launchers.yaml_file import read_yaml
from tests.refusals.cases import FOLDER

GOLDEN = FOLDER / "golden" / "wordings.yaml"
"""Id to wording."""


@pytest.fixture(scope="session")
def wordings(update_golden: bool) -> Iterator[dict[str, str]]:
    """The golden ones; to be filled when they are rewritten."""
    if not update_golden:
        yield read_yaml(GOLDEN)
        return
    said: dict[str, str] = {}
    yield said
    GOLDEN.write_text(yaml.safe_dump(said, width=10_000, allow_unicode=True), encoding="utf-8")
