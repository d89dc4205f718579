"""A comparison with a chart without the launcher's code, a renderer and an API server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import archive
from tests.api import server
from tests.api.compare import KINDS, Comparison
from tests.chart.helm import CHART
from tests.fuzz import renderer

NEEDED = (
    *(server.BUILT.bin / name for name in ("etcd", "renderer")),
    server.BUILT.control_plane / "kube-apiserver",
)
"""Programs that ``make differential-api`` builds."""


@contextmanager
def comparison(folder: Path) -> Iterator[Comparison]:
    """Start what a comparison needs, below an empty folder; end it with the block."""
    chart, schemas, home = folder / "chart", folder / "schemas", folder / "api"
    shutil.copytree(CHART, chart)
    (chart / archive.PLACE).write_bytes(b"stub")
    schemas.mkdir()
    home.mkdir()
    for kind in KINDS:  # the server judges, not the renderer
        (schemas / f"{kind}.json").write_text("{}", encoding="utf-8")
    with server.start(home) as api, renderer.start(schemas) as running:
        yield Comparison(chart=chart, renderer=running, server=api)


def missing() -> list[str]:
    """Return the programs that are not built."""
    return [path.name for path in NEEDED if not path.exists()]
