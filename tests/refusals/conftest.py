"""The golden wordings of all refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import yaml

from scripts.manifest import LOADER
from tests.refusals.cases import FOLDER

GOLDEN = FOLDER / "golden" / "wordings.yaml"
"""Name of each case to its refusals."""


@pytest.fixture(scope="session")
def wordings(update_golden: bool) -> Iterator[dict[str, Sequence[str]]]:
    """The golden ones; to be filled with all when they are rewritten."""
    if not update_golden:
        yield yaml.load(GOLDEN.read_text(encoding="utf-8"), LOADER)
        return
    said: dict[str, Sequence[str]] = {}
    yield said
    GOLDEN.write_text(yaml.safe_dump(said, width=10_000, allow_unicode=True), encoding="utf-8")
