"""All mistakes of values as ``megatron-dpo plan`` prints them: the judge with the renderer."""

from __future__ import annotations

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
    """Helm with one release's values."""

    values: Mapping[str, Any]
    name: str = "run"
    chart: Path = CHART
    helm: str | None = None

    def merged(self, chart: Path) -> str:
        """See ``scripts.values.judge.Engine``."""
        return template(judge.encoded(self.values), name=self.name, helm=self.helm, chart=chart)

    def refusal(self, values: str) -> str:
        """See ``scripts.values.judge.Engine``."""
        try:
            template(values, SKIP, name=self.name, helm=self.helm, chart=self.chart)
        except Refused as refused:
            return str(refused)
        return ""


def lines(values: Mapping[str, Any], *, name: str = "run", chart: Path = CHART) -> list[str]:
    """Return each mistake as ``path: cause; remedy [id]``."""
    return judge.lines(Engine(values=values, name=name, chart=chart), _printer())


@cache
def _printer() -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return judge.printer(Path(folder.name))
