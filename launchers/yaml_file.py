"""Read YAML files that this repository ships, and other YAML that is large."""

from pathlib import Path
from typing import Any

import yaml

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, ten times as fast, where PyYAML was built with it."""


def read_yaml(file: Path) -> Any:
    """Return the content of a YAML file of one document."""
    return yaml.load(file.read_text(encoding="utf-8"), LOADER)
