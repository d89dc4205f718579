"""All mistakes of values as ``megatron-dpo plan`` prints them: the judge with the renderer."""

import atexit
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scripts.values import judge
from tests.chart.helm import CHART, SKIP, Refused, template


@dataclass(frozen=True, kw_only=True)
class Engine:
    values: Mapping[str, Any]
    name: str = "run"
    chart: Path = CHART
    helm: str | None = None

    def merged(self, chart: Path) -> str:
        """See ``scripts.values.judge.Engine``."""
        return template(judge.encoded(self.values), name=self.name, helm=self.helm, chart=chart)

    def rendered(self, values: str) -> tuple[str, str]:
        return _rendered(self, values, SKIP)


def _rendered(engine: Engine, values: str, *flags: str) -> tuple[str, str]:
    try:
        found = template(values, *flags, name=engine.name, helm=engine.helm, chart=engine.chart)
    except Refused as refused:
        return "", str(refused)
    return found, ""


def lines(values: Mapping[str, Any], *, name: str = "run", chart: Path = CHART) -> list[str]:
    """Return each mistake as ``path: cause; remedy [id]``."""
    engine = Engine(values=values, name=name, chart=chart)
    manifests, _ = _rendered(engine, judge.encoded(values))
    return judge.lines(engine, _printer(), manifests)


@cache
def _printer() -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return judge.printer(Path(folder.name))
