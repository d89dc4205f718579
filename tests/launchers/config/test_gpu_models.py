"""GPU models."""

from __future__ import annotations

import pytest

from launchers.config.gpu_models import CARDS, named, seen
from launchers.exits import LaunchError


def test_cards_are_known_by_what_nvidia_smi_prints() -> None:
    for card in CARDS.values():
        assert all(seen(f"{name}\n") == card for name in card.smi)
    assert seen("Tesla T4") is None


def test_an_unknown_card_names_the_known_ones() -> None:
    with pytest.raises(LaunchError, match=r"gpuModel.*'h300'.*a100") as refusal:
        named("h300")
    assert refusal.value.id == "gpu-model-unknown"


def test_the_issues_cards_are_there() -> None:
    names = "a100-40g a100-80g a800-80g h100-80g h800-80g h20-96g h200 b200 gb200"
    assert set(names.split()) <= set(CARDS)
    assert named("h200").memory_gib == 139.72
