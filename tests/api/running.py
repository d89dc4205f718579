"""A comparison with a chart without the launcher's code, a renderer and an API server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.api import server
from tests.api.compare import Comparison
from tests.chart import renderer
from tests.chart.helm import KUBERNETES, stubbed

NEEDED = (
    *(server.BUILT.bin / name for name in ("etcd", "renderer")),
    server.BUILT.control_plane / "kube-apiserver",
)
"""Programs that ``make differential-api`` builds."""

WORKERS = 3
"""Cases at once: while one waits for the server, others render."""


@contextmanager
def comparison(folder: Path) -> Iterator[Comparison]:
    """Start what a comparison needs, below an empty folder; end it with the block."""
    chart, schemas, home = stubbed(folder / "chart"), folder / "schemas", folder / "api"
    schemas.mkdir()
    home.mkdir()
    for kind in server.PATHS:  # the server judges, not the renderer
        (schemas / f"{kind}.json").write_text("{}", encoding="utf-8")
    with server.start(home) as api, ExitStack() as stack:
        enter = stack.enter_context
        workers = [
            (enter(renderer.start(KUBERNETES, schemas)), enter(api.again())) for _ in range(WORKERS)
        ]
        yield Comparison(chart=chart, workers=workers)


def missing() -> list[str]:
    return [path.name for path in NEEDED if not path.exists()]
