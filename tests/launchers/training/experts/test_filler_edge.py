"""Filler of packs reaches neither balancing losses nor experts' counts; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "without the feature filler changes gradients",
    "without the feature filler is counted",
    *(
        f"{name}: {what}"
        for name in ("stored", "recomputed", "partly recomputed", "with a z-loss", "by sequence")
        for what in (
            "gradients as without filler but for",
            "balancing losses as without filler but for",
            "rows of experts as without filler",
        )
    ),
    "each text's token is counted once",
)


@needs_oracle
@pytest.mark.timeout(240)
def test_filler_counts_nowhere() -> None:
    said = ranks_on_cpu.said("tests.launchers.training.experts.filler_edge")
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []
