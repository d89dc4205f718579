"""The expected failure of a command."""

from __future__ import annotations


class Problem(Exception):
    """An expected failure, shown as one message with its remedy and without a traceback."""
