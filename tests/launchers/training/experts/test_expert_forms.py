"""Stacked adapters and ordered experts train, save and resume as upstream's do, bit by bit."""

from pathlib import Path
from typing import Any

import pytest

from tests.engines.fetch import ENGINES, FILE
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import NEXT, PINNED, Stack

RELEASE = "2.16.1"
ADAPTERS, TRAINED = (
    ("shipped", "scaling of 3", "buckets", "clipped"),
    ("trained", "trained, buckets"),
)
EXPERTS = 8
"""As of ``expert_ranks.py``."""
NAMES = ("a rank of 12", "a bias", "fp8", "not bf16")
LEFT = {"shipped": [True, True], **dict.fromkeys(NAMES, [False, False]), "view": True}
FORMS = ("False in False", "False in True", "True in False", "True in True")
pytestmark = [
    pytest.mark.skipif(
        not all(stack.is_installed for stack in (PINNED, NEXT))
        or not (ENGINES / RELEASE / FILE).exists(),
        reason="no .tools/train, .tools/train-4.6.0 or .tools/engines: run `make setup`",
    ),
]


def found(stack: Stack, ep: int, folder: Path) -> list[dict[str, Any]]:
    module = "tests.launchers.training.experts.expert_ranks"
    words = str(folder), str(ENGINES / RELEASE), str(ep)
    return ranks_on_cpu.reports(module, *words, stack=stack)


# replicas of all experts, whose weights share a buffer with others, and shared experts
@pytest.mark.parametrize(("stack", "ep"), [(PINNED, 1), (NEXT, 2)], ids=["replicas", "shared"])
def test_both_forms_have_the_same_bits_and_each_resumes_the_other(
    stack: Stack, ep: int, tmp_path: Path
) -> None:
    ranks = found(stack, ep, tmp_path)
    assert len(ranks) == 2
    for rank in ranks:
        assert rank.pop("left") == LEFT
        assert rank.pop("plain") == [True, True]
        assert rank.pop("remade")
        assert tuple(rank) == ADAPTERS + TRAINED
        for case, seen in rank.items():
            assert seen["first"], case
            assert seen["merged"] or case == "clipped", case
            assert all(same for same, _ in seen["loaded"].values()), case
            # weights and extra states of two layers' experts, or of four adapters', and a weight
            entries = [4 * 2 * EXPERTS // ep + 1, 4 + 1]
            assert seen["entries"] == (entries if case in ADAPTERS else 2 * [entries[0] // 2 + 1])
            if case != "clipped":  # where the norm's last bit scales all gradients
                assert seen["trained"], case
                assert seen["loaded"] == dict.fromkeys(FORMS, [True, True]), case
        one, other = rank["clipped"]["norms"]
        assert one == pytest.approx(other, rel=1e-6)
        assert min(one) > 1
