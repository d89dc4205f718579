"""Gathered tokens give the losses and gradients of all-to-all; two ranks on CPU."""

from __future__ import annotations

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle

SHOWN = (
    "packs differ between ranks",
    "packs are filled by a text that counts nowhere",
    *(
        f"torch.{kind}: {what}"
        for kind in ("float32", "bfloat16")
        for what in (
            "what fills packs changes nothing",
            "gathers",
            "adds up in its own type",
            "equal but for",
        )
    ),
    "a full pack is left alone",
    "refused: recipe.args.packing_length: ",
)


@needs_oracle
@pytest.mark.timeout(180)
def test_gathered_tokens_agree_with_all_to_all() -> None:
    said = ranks_on_cpu.said("tests.launchers.training.packs.gather_edge")
    assert [what for what in SHOWN if not any(line.startswith(what) for line in said)] == []
