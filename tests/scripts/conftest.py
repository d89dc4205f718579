"""Fixtures of the tests of the command: a cluster with a run, and Helm that renders values once."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import helm
from tests.scripts.observe.fixtures import api, cluster, workspace

__all__ = ["api", "cluster", "workspace"]


@pytest.fixture(autouse=True, scope="session")
def _rendered_once() -> Iterator[None]:
    """Keep what Helm prints of this chart, which follows from the values: 0.2 s of a processor."""
    call, kept = helm.Release._call, dict[object, subprocess.CompletedProcess[str]]()

    def once(
        release: helm.Release, chart: Path, *more: str, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        if chart != helm.ROOT / "chart":
            return call(release, chart, *more, given=given)
        files = tuple((file, file.read_bytes()) for file in release.files)
        key = (release.helm, release.name, files, more, given)
        if key not in kept:
            kept[key] = call(release, chart, *more, given=given)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helm.Release, "_call", once)
        yield
