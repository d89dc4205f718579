"""Prompts once give the log-probabilities and gradients of whole texts; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "tokens",
    "rows have shorter lengths",
    "refused prompt-once-tokens",
    "refused prompt-once-model",
    "fused False: equal but for",
    "fused True: equal but for",
    "control: with other positions they differ",
    "control: with other keys they differ",
)


@needs_oracle
@pytest.mark.timeout(300)
def test_prompts_once_agree_with_whole_texts() -> None:
    said = ranks_on_cpu.said("tests.launchers.training.packs.prompt_edge")
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []
