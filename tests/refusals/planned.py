"""Messages of ``megatron-dpo plan`` about a case's values, called as the command calls it."""

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from scripts.plan.command import Request, run


def refusals(values: Mapping[str, Any], gpu: str, folder: Path) -> list[str]:
    """Return why a plan of a values file in a folder can't be, on a GPU model if one is named."""
    file = folder / "values.yaml"
    file.write_text(json.dumps(values), encoding="utf-8")
    said = StringIO()
    request = Request(run="run", files=[file], gpu=gpu, as_json=True)
    code = run(request, Console(file=said, width=200))
    found: list[str] = json.loads(said.getvalue())["refusals"]
    assert (code == 1) == bool(found)
    return found
