"""Where a pack has the tokens of prompts that are computed once, and attention their keys.

A prompt is the longest beginning that both texts of a pair have in common and in which neither has
a label. Of p such tokens the chosen text computes all. The rejected text leaves out the first
p - 1, its *shared* tokens: it begins with the prompt's last token, so that its first label has a
logit of its own. Attention gives it the keys and values of the shared tokens of the chosen text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from launchers.reference.pairs import FIELDS, SHARED

BATCH = 1000
"""Rows of the dataset that are compared at a time."""


def shared(rows: Any) -> list[int]:
    """Return the shared tokens of each pair.

    ``rows``: tokenised pairs, a ``datasets.Dataset``.
    """
    batches = rows.select_columns([*FIELDS]).with_format("arrow").iter(batch_size=BATCH)
    return [n for batch in batches for n in _shared(*(_column(batch[name]) for name in FIELDS))]


Column = tuple[Any, Any]
"""All numbers of a column of lists, and the length of each list."""


def _column(column: Any) -> Column:
    lists = column.combine_chunks()
    return lists.flatten().to_numpy(), lists.value_lengths().to_numpy().astype(np.int64)


def _shared(chosen: Column, labels: Column, rejected: Column, others: Column) -> list[int]:
    found = np.minimum(chosen[1], rejected[1])
    pair = np.repeat(np.arange(len(found)), found)
    at = np.arange(found.sum()) - np.repeat(found.cumsum() - found, found)

    def values(column: Column) -> Any:
        return column[0][np.repeat(column[1].cumsum() - column[1], found) + at]

    ends = values(chosen) != values(rejected)
    ends |= (values(labels) != -100) | (values(others) != -100)
    ended, first = np.unique(pair[ends], return_index=True)
    found[ended] = at[ends][first]
    shorter: list[int] = np.maximum(found - 1, 0).tolist()
    return shorter


def without_shared(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoded pair whose rejected text begins with the prompt's last token.

    >>> without_shared({SHARED: 1, "chosen_length": 2, "rejected_input_ids": [5, 6, 7],
    ...                 "rejected_length": 3})["rejected_input_ids"]
    [6, 7]
    """
    cut, size = row.get(SHARED, 0), len(row["rejected_input_ids"])

    def shorter(name: str, value: Any) -> Any:
        if not name.startswith("rejected_"):
            return value
        if name == "rejected_length":
            return value - cut
        return value[cut:] if isinstance(value, list) and len(value) == size else value

    return {name: shorter(name, value) for name, value in row.items() if name != SHARED}


def layout(sizes: Any, cuts: Sequence[int]) -> dict[str, Any]:
    """Return where attention finds the keys of each text of a pack, as arrays.

    ``sizes`` are computed tokens: chosen, rejected, filler; ``cuts``: shared ones of each pair.

    Returns:
        ``keys``: the token of each key; ``own``: for each token its key; ``copies``: the keys that
        are copies for rejected texts, and ``sources``: their tokens, each once; ``ends``: where the
        keys of each text begin, then their number; ``longest``: most tokens and most keys of a
        text.

    >>> found = layout(np.array([3, 2]), [2])
    >>> found["keys"].tolist(), found["ends"].tolist(), found["copies"].tolist()
    ([0, 1, 2, 0, 1, 3, 4], [0, 3, 7], [3, 4])
    """
    pairs, begins = len(cuts), sizes.cumsum() - sizes
    before, prompts = np.zeros_like(sizes), np.zeros_like(sizes)
    before[pairs : 2 * pairs], prompts[pairs : 2 * pairs] = cuts, begins[:pairs]
    # of each text the keys of its prompt, then its own
    counts, first = np.stack([before, sizes], 1).ravel(), np.stack([prompts, begins], 1).ravel()
    keys = np.repeat(first - (counts.cumsum() - counts), counts) + np.arange(counts.sum())
    is_own = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    copies = np.flatnonzero(~is_own)
    return {
        "keys": keys,
        "own": np.flatnonzero(is_own),
        "copies": copies,
        "sources": keys[copies],
        "ends": np.concatenate([[0], (before + sizes).cumsum()]).astype(np.int32),
        "longest": (int(sizes.max()), int((before + sizes).max())),
    }
