"""Remember which rows of the dataset each microbatch of the running step holds.

A batch sampler draws in the order in which its loader returns batches, some ahead of them, so that
the first that were not yet trained are those of the running step.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from launchers.metrics.nonfinite import Finding, Microbatch, Zeros
from launchers.system.atomic_file import replace


class Recorded:
    """A batch sampler that remembers what it has drawn."""

    def __init__(self, inner: Any, drawn: deque[list[int]]) -> None:
        """Wrap a sampler of batches of dataset indices."""
        self.inner, self.drawn = inner, drawn

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the batches of an epoch."""
        for batch in self.inner:
            self.drawn.append(list(batch))
            yield batch

    def __len__(self) -> int:
        """Return the number of batches, as the sampler does."""
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the sampler, such as ``set_epoch``."""
        return getattr(self.inner, name)


class StepRows:
    """The microbatches of one rank's running step."""

    def __init__(self) -> None:
        """Begin without a dataset."""
        self.dataset: Any = None
        self.decode: Callable[[list[int]], str] | None = None
        """Returns the text of tokens."""
        self.drawn: deque[list[int]] = deque()
        self.losses: list[torch.Tensor] = []
        self.step = 1
        self.count: int | None = None
        """Microbatches of a step; None until they are read."""
        self.zeros: Zeros | None = None
        """Judges gradients of 0; None unless the feature ``zero_gradient`` is installed."""

    def judge_zeros(self) -> None:
        """Judge gradients of 0 from now on."""
        self.zeros = Zeros()

    def watch(self, loader: Any) -> None:
        """Record what the training loader draws from now on; a stream has no sampler."""
        if getattr(loader, "batch_sampler", None) is None:
            return
        self.dataset = loader.dataset
        self.drawn.clear()
        # the loader refuses to set this attribute once it is built, but reads it at each epoch
        vars(loader)["batch_sampler"] = Recorded(loader.batch_sampler, self.drawn)

    def begin(self, step: int, count: int | None = None) -> None:
        """Begin a step of ``count`` microbatches; the losses of the one before are forgotten."""
        self.step, self.count = step, count
        self.losses.clear()

    def end(self) -> None:
        """Forget the batches of a step that has ended well."""
        for _ in range(min(self.count or 0, len(self.drawn))):
            self.drawn.popleft()

    def finding(self, rank: int, what: str, value: float) -> Finding:
        """Return what is known about a value of this step that is not finite."""
        drawn = [tuple(rows_of(self.dataset, each)) for each in self.own()]
        losses = [float(each) for each in self.losses]  # the only synchronisation, at the end
        count = max(len(drawn), len(losses))
        return Finding(
            rank=rank,
            step=self.step,
            what=what,
            value=value,
            microbatches=[
                Microbatch(
                    rows=drawn[n] if n < len(drawn) else (),
                    loss=losses[n] if len(losses) == count else None,
                )
                for n in range(count)
            ],
        )

    def own(self) -> list[list[int]]:
        """Return the microbatches of the running step, as indices of the dataset."""
        return list(self.drawn)[: self.count]


CURRENT = StepRows()
"""Those of this process."""


def judge_zeros() -> None:
    """Let the callback ``nonfinite`` judge gradients of 0, too."""
    CURRENT.judge_zeros()


def rows_of(dataset: Any, indices: Iterable[int]) -> list[int]:
    """Return the rows at some indices of a dataset; an index of packs stands for several rows.

    ms-swift 4.4.1 ``swift/dataset/packing.py``: ``PackingDataset.packed_idx``.
    """
    packs = getattr(dataset, "packed_idx", None)
    return [row for index in indices for row in ([index] if packs is None else packs[index])]


def written(finding: Finding, dataset: Any) -> str:
    """Write the finding's rows to the attempt's folder, one JSON object each; return the path.

    An empty path stands for rows that could not be written: the error itself is to be reported.
    """
    folder = os.environ.get("DPO_ATTEMPT_FOLDER")
    if not folder or not finding.rows:
        return ""
    texts = dataset
    while hasattr(texts, "dataset"):  # packs of tokenised rows of texts
        texts = texts.dataset
    path = Path(folder) / f"not-finite-{finding.rank}.jsonl"
    try:
        lines = [
            json.dumps({"row": row, **_readable(texts[row])}, ensure_ascii=False, default=str)
            for row in finding.rows
        ]
        replace(path, "\n".join(lines) + "\n")
    except (OSError, TypeError, ValueError, LookupError):
        return ""
    return str(path)


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's texts; rows of the cache of tokens hold no others than their tokens."""
    suffix, decode = "input_ids", CURRENT.decode
    tokens = {name: ids for name, ids in row.items() if name.endswith(suffix)}
    if not tokens or decode is None:
        return dict(row)
    return {name.removesuffix(suffix) + "text": decode(ids) for name, ids in tokens.items()}


def error(rank: int, what: str, value: float) -> Exception:
    """Return the error for a value of the running step that is not finite."""
    finding = CURRENT.finding(rank, what, value)
    return finding.error(written(finding, CURRENT.dataset))
