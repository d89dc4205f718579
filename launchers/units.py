"""Units of sizes, and numbers of things."""

GIB = 1 << 30
"""Bytes of a GiB."""


def count_text(count: int, noun: str) -> str:
    """Return how many of a thing, for people.

    >>> count_text(1, "node"), count_text(2, "node"), count_text(0, "GPU")
    ('1 node', '2 nodes', '0 GPUs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
