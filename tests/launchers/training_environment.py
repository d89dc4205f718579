"""Paths of the training environment of `make setup`: real ms-swift and torch for CPU."""

from __future__ import annotations

import pytest

from launchers.flags import installed
from scripts.dev.flags import site_packages
from scripts.helm import ROOT

TRAIN = ROOT / ".tools" / "train"
PYTHON = TRAIN / "bin" / "python"
ORACLE = ROOT / ".tools" / "oracle"
"""megatron-core and mcore-bridge, installed from tests/differential/requirements.txt."""

needs_training = pytest.mark.skipif(not PYTHON.exists(), reason="no .tools/train: run `make setup`")
needs_oracle = pytest.mark.skipif(
    not PYTHON.exists() or not ORACLE.exists(),
    reason="no .tools/train or .tools/oracle: run `make setup`",
)


def swift_classes() -> installed.Classes:
    """Parse the dataclasses of the arguments in ms-swift's source."""
    site = site_packages(TRAIN)
    return installed.read({name: site / name for name in ("swift", "transformers")})
