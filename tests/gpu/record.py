"""Results of GPU tests as JSON files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gpu.bench.profiles import ROOT


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record without paths of this checkout, each list of plain values on one line."""
    text = json.dumps(record, indent=1).replace(f"{ROOT}/", "")
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
