"""Messages of ``megatron-dpo plan`` about a case's values, called as the command calls it."""

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from scripts.plan.command import Request, run


def refusals(values: Mapping[str, Any], gpu: str, folder: Path) -> list[str]:
    """Return why a plan can't be; an empty list if it can.

    Args:
        values: what the user wrote.
        gpu: the GPU model, or an empty text.
        folder: where the values file goes.
    """
    file = folder / "values.yaml"
    file.write_text(json.dumps(values), encoding="utf-8")
    said = StringIO()
    console = Console(file=said, width=200)
    code = run(Request(run="run", files=[file], gpu=gpu, as_json=True), console)
    found: list[str] = json.loads(said.getvalue())["refusals"]
    assert (code == 1) == bool(found)
    return found
