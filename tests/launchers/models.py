"""The known models, for tests."""

from __future__ import annotations

from launchers.plan.model_config import Shape, parse
from scripts.plan.inputs import known_models


def shape_of(name: str) -> Shape:
    """Return a known model's sizes."""
    return parse(known_models()[name])
