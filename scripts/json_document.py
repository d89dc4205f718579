"""The documents that `--json` prints; `documents.yaml` has their schemas."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

SCHEMA = 1
"""Field `schema` of each; it rises when a field is removed or changes its meaning."""


def print_json(console: Console, content: Mapping[str, Any]) -> None:
    """Print one JSON document as it is."""
    console.print(json.dumps(content, indent=2), soft_wrap=True, highlight=False, markup=False)
