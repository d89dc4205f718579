"""What is wrong with a row that ms-swift has read or encoded, whatever made it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

IGNORED = -100
"""Label of a token that is not trained on (PyTorch's cross entropy)."""
SIDES = ("chosen", "rejected")
WARNED = ("a tool turn that only one side has",)
"""Faults that are a warning in all pairs too: upstream's way to write a trajectory."""
NO_ANSWER = "no token of the answer to train on"


def faults(
    encoded: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], *, is_left_cut: bool = False
) -> Iterator[str]:
    """Yield what is wrong with a pair, or with the answer of a row without pairs, in words.

    Args:
        encoded: tokens and labels of both sides, as the template's ``encode`` returns them; a row
            of a task without pairs has other names, and one of KTO a ``label``.
        messages: the messages of the chosen side, before the template.
        is_left_cut: whether a long text is cut at its beginning: of two prompts the ends count.
    """
    if f"{SIDES[0]}_input_ids" not in encoded or "label" in encoded:  # SFT, PT, KTO: no pair
        own = encoded.get("labels", encoded.get(f"{SIDES[0]}_labels"))
        if isinstance(own, list) and _begin(own) is None:
            yield NO_ANSWER
        return
    tokens = [encoded.get(f"{side}_input_ids") or [] for side in SIDES]
    if tokens[0] == tokens[1]:
        yield "equal sides"
        return
    labels = [encoded.get(f"{side}_labels") for side in SIDES]
    if None in labels:  # a reward model has none
        return
    begins = [_begin(each) for each in labels if each is not None]
    lacking = [side for side, begin in zip(SIDES, begins, strict=True) if begin is None]
    if lacking:
        yield f"no token of the {lacking[0]} answer to train on"
        return
    prompts = [ids[:begin] for ids, begin in zip(tokens, begins, strict=True)]
    if is_left_cut:
        kept = min(map(len, prompts))
        prompts = [each[len(each) - kept :] for each in prompts]
    if prompts[0] == prompts[1]:
        return
    short, long = sorted(prompts, key=len)
    is_prefix = long[: len(short)] == short
    if is_prefix and any(turn.get("role") in ("tool", "tool_response") for turn in messages):
        yield WARNED[0]
    else:
        yield "prompts that differ between the sides"


def unlabelled(row: Mapping[str, Any]) -> str:
    """Return why KTO cannot use a row as its reader yields it; empty if it can.

    ms-swift takes any value but 0 and null for "desirable", and ends with an AssertionError where a
    conversation ends with another role (``swift/pipelines/train/kto.py``).
    """
    if row.get("label") not in (0, 1):  # False, True
        return "a label that is neither true nor false"
    is_answered = row.get("messages") and row["messages"][-1]["role"] == "assistant"
    return "" if is_answered else "a conversation that does not end with the assistant"


def _begin(labels: Sequence[int]) -> int | None:
    return next((n for n, label in enumerate(labels) if label != IGNORED), None)
