"""Suggest the known name that a misspelt one was meant to be."""

import difflib
import re
from collections.abc import Collection

SIMILAR = 0.8
"""Similarity (``difflib.SequenceMatcher.ratio``) from which a name is proposed; a guess below it
would mislead."""
_LISTED = 20
"""Names that a remedy lists at most."""


def nearest(given: str, known: Collection[str]) -> str | None:
    """Return the known name most similar to ``given``, or None if none is similar.

    Names that begin otherwise, with other words in between or other numbers are left out: they
    have most letters in common, and another meaning.

    >>> nearest("leraning_rate", ["lr", "learning_rate"])
    'learning_rate'
    >>> nearest("dtype", ["torch_dtype", "seed"]) is None
    True
    >>> nearest("train_batch_size", ["generation_batch_size"]) is None
    True
    """
    likely = sorted(name for name in known if _may_mean(given, name))
    found = difflib.get_close_matches(given, likely, n=1, cutoff=SIMILAR)
    return found[0] if found else None


def _may_mean(given: str, name: str) -> bool:
    """Return whether the first letters of one name's words are, in order, among the other's.

    >>> _may_mean("adam_beta_2", "adam_beta2"), _may_mean("adam_beta_2", "adam_beta1")
    (True, False)
    """
    if re.sub(r"\D", "", name) not in ("", re.sub(r"\D", "", given)):
        return False
    shorter, longer = sorted((_initials(given), _initials(name)), key=len)
    rest = iter(longer)
    return shorter[:1] == longer[:1] and all(letter in rest for letter in shorter)


def _initials(name: str) -> str:
    """Return the first letter of each word.

    >>> _initials("moe_token_dispatcher_type")
    'mtdt'
    """
    return "".join(word[0] for word in re.findall(r"[A-Za-z0-9]+", name))


def remedy(given: str, known: Collection[str]) -> str:
    """Propose the nearest known name; otherwise list the known ones.

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
