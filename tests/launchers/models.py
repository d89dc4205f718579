"""Model configurations of ``scripts/plan/models``."""

from __future__ import annotations

import yaml

from launchers.plan.model_config import Shape, parse
from scripts.helm import ROOT

MODELS = ROOT / "scripts" / "plan" / "models"


def shape_of(name: str) -> Shape:
    """Return the configuration of a known model."""
    return parse(yaml.safe_load((MODELS / f"{name}.yaml").read_text(encoding="utf-8")))
