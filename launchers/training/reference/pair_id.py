"""Which pair a row of the training data is: a digest of its tokens.

An index would not do: ms-swift packs, shuffles, splits and re-orders rows, replaces a row that does
not encode by another one (``swift/dataset/utils.py``: ``LazyLLMDataset``), and cuts an epoch by the
number of ranks. A pair's log-probabilities depend on its tokens and labels alone, so that what is
equal may share an entry, and another shuffle, epoch, packing or layout finds it again.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b

SIZE = 16
"""Bytes of an id; two of 10^9 pairs share one with a chance of 10^-21."""
FIELDS = ("chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels")
"""Of a row as ms-swift's template encodes a pair (``swift/template/base.py``: ``_rlhf_encode``)."""


def pair_id(row: Mapping[str, Sequence[int]]) -> bytes:
    """Return the id of an encoded row, before a collator pads it.

    Raises:
        KeyError: the row is no encoded pair.

    >>> row = dict(zip(FIELDS, ([5, 6], [-100, 6], [5, 7], [-100, 7])))
    >>> pair_id(row).hex()
    '28d751b552aca651df2f07940bcfcfc7'
    """
    digest = blake2b(digest_size=SIZE)
    for field in FIELDS:
        numbers = array("i", row[field])
        digest.update(len(numbers).to_bytes(4, "little"))
        digest.update(numbers.tobytes())
    return digest.digest()


def tokens(row: Mapping[str, Sequence[int]]) -> int:
    """Return a pair's real tokens: chosen and rejected, each once."""
    return len(row["chosen_input_ids"]) + len(row["rejected_input_ids"])


def rows_of(batch: Sequence[object]) -> list[Mapping[str, Sequence[int]]]:
    """Return the rows of a batch: a pack is a list of rows (``swift/template/base.py``)."""
    rows: list[Mapping[str, Sequence[int]]] = []
    for each in batch:
        if isinstance(each, list):
            rows.extend(each)
        else:
            assert isinstance(each, Mapping), f"a row of the dataset is a {type(each).__name__}"
            rows.append(each)
    return rows
