"""Known model configurations, for tests."""

from __future__ import annotations

from launchers.plan.model_config import Shape, parse
from scripts.plan.inputs import known_models


def shape_of(name: str) -> Shape:
    """Return the configuration of a known model."""
    return parse(known_models()[name])
