"""What a command says when it can't go on."""

from __future__ import annotations


class Problem(Exception):
    """An expected failure of a command: one message that says what to do, no traceback."""
