"""Identify a pair of the training data by a digest of its tokens, and assign pairs to ranks.

An index is not enough: ms-swift packs, shuffles, splits and reorders rows, replaces a row that it
cannot encode by another one (``swift/dataset/utils.py``: ``LazyLLMDataset``), and cuts an epoch by
the number of ranks. A pair's log-probabilities depend on its tokens and labels alone, so that equal
pairs share an entry, which another shuffle, epoch, packing or layout finds again.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

SIZE = 16
"""Bytes of an id; the chance that two of 10^9 pairs share one is 10^-21."""
FIELDS = ("chosen_input_ids", "chosen_labels", "rejected_input_ids", "rejected_labels")
"""Keys of a pair as ms-swift's template encodes it (``swift/template/base.py: _rlhf_encode``)."""
SHARED = "shared_tokens"
"""Key of a pair whose rejected text does not compute this many first tokens of the prompt, and of a
batch the list of these (``training/packs/prompt_layout.py``)."""
ROUND = 16
"""Micro-batches of the pass between two checks for results of an earlier pass."""


def pair_id(row: Mapping[str, Sequence[int]]) -> bytes:
    """Return the id of an encoded row, before a collator pads it.

    Raises:
        KeyError: the row is not an encoded pair.

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


def tokens(row: Mapping[str, Any]) -> int:
    """Return a pair's real tokens that are computed, of the chosen and of the rejected text."""
    whole = len(row["chosen_input_ids"]) + len(row["rejected_input_ids"])
    return whole - int(row.get(SHARED, 0))


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


def batches(samples: int, micro: int, rank: int, ranks: int) -> Iterator[tuple[list[int], bool]]:
    """Yield a data-parallel rank's batches of dataset indices, and whether they count.

    All ranks get the same number of batches, because experts are distributed over them: the last
    round is filled up with batches from the dataset's start, which do not count.

    >>> [list(batches(3, 1, rank, 2)) for rank in (0, 1)]
    [[([0], True), ([2], True)], [([1], True), ([0], False)]]
    """
    whole = -(-samples // micro)
    for number in range(rank, -(-whole // ranks) * ranks, ranks):
        first = (number % whole) * micro
        yield list(range(first, min(first + micro, samples))), number < whole
