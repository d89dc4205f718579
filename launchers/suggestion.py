"""Suggest the known name that a misspelt one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Collection

SIMILAR = 0.8
"""Similarity (``difflib.SequenceMatcher.ratio``) from which a name is proposed; a guess below it
would mislead."""
_LISTED = 20
"""Names that a remedy lists at most."""


def nearest(given: str, known: Collection[str]) -> str | None:
    """Return the known name most similar to ``given``, or None if none is similar.

    >>> nearest("leraning_rate", ["lr", "learning_rate"])
    'learning_rate'
    >>> nearest("dtype", ["torch_dtype", "seed"]) is None
    True
    """
    found = difflib.get_close_matches(given, sorted(known), n=1, cutoff=SIMILAR)
    return found[0] if found else None


def remedy(given: str, known: Collection[str]) -> str:
    """Propose the nearest known name; otherwise list the known ones.

    Args:
        given: the unknown name.
        known: the allowed names, at least one.

    >>> remedy("clon", ["clone", "train"])
    'did you mean clone?'
    >>> remedy("fetch", ["clone", "train"])
    'use clone or train'
    """
    near = nearest(given, known)
    if near is not None:
        return f"did you mean {near}?"
    *first, last = sorted(known)
    if len(first) >= _LISTED:
        return f"use one of {len(known)} names: {', '.join(first[:_LISTED])} …"
    return f"use {', '.join(first)} or {last}" if first else f"use {last}"
