"""Phrases that the sentences of several states share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from launchers.gang.barrier import spell_ranks
from scripts.observe.view import Rank, View
from scripts.plan.units import time_text

Facts = Mapping[str, object]
Condition = Callable[[View], Facts | None]
SENTENCE_BYTES = 600
"""A longer message of a controller is cut."""


def clean(message: str) -> str:
    """Return a controller's message for the end of a sentence: one line, without the last stop.

    >>> clean("Back-off pulling image. ")
    'Back-off pulling image'
    """
    text = " ".join(message.split())
    if len(text) > SENTENCE_BYTES:
        text = text[:SENTENCE_BYTES].rstrip() + " ..."
    return text.rstrip(".;: ")


def after(message: str) -> str:
    """Return `: message` for a sentence, or nothing.

    >>> after("no nodes."), after("")
    (': no nodes', '')
    """
    return f": {clean(message)}" if message.strip() else ""


def who(ranks: Sequence[Rank]) -> str:
    """Return ranks with the pod and node of a single one.

    >>> rank = Rank(number=1, pod="dpo-node-0-1-x", node="n2", phase="Pending", exit_code=None,
    ...     terminating_since=None, started_at=None, reason="", end=None, message="")
    >>> who([rank])
    'rank 1 (dpo-node-0-1-x on n2)'
    """
    if len(ranks) == 1:
        return ranks[0].name
    return spell_ranks({rank.number for rank in ranks})


def lasting(view: View, when: float | None) -> str:
    """Return ` for TIME` for a sentence; nothing if it is not known."""
    return f" for {time_text(max(0.0, view.now - when))}" if when else ""


def matched(pattern: str, text: str) -> dict[str, str] | None:
    """Return the named groups of a pattern in a text; None without a match."""
    found = re.search(pattern, text)
    return found.groupdict() if found else None
