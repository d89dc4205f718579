"""Keep the pairs of this rank's steps until the next checkpoint, without waiting for the GPU.

The loss function ``dpo_loss``, which all DPO trainers of ms-swift call once a microbatch, receives
the log-probabilities of the pairs in the order in which the sampler drew their rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from launchers import logs
from launchers.exits import LaunchError
from launchers.training.collect import device as gpu
from launchers.training.collect.batch_rows import CURRENT, rows_of
from launchers.training.installed import INSTALLED
from launchers.training.ledger.parts import REAL, Parts, joined
from launchers.training.tokens.row_account import FILE, ROW

MEASURED = REAL[1:]
"""What ``dpo_loss`` gives; the weight follows from the pairs of a step."""


class Recorder:
    """The pairs of one rank; rank 0 writes those of all."""

    def __init__(self, output: str, resumed: int, *, counts: bool) -> None:
        """Begin after a step.

        ``counts`` is False if another rank has the same pairs; ``output`` is for runs alone.
        """
        home = Path(os.environ.get("DPO_RUN_FOLDER") or output)
        self.parts, self.counts = Parts(home, resumed), counts
        self.is_equal = any(name.startswith("pair_weights") for name in INSTALLED)
        self.open: list[torch.Tensor] = []
        self.steps: list[tuple[int, list[list[int]], Sequence[int], torch.Tensor]] = []
        self.warned: set[str] = set()
        self.numbers: tuple[Any, Any] | None = None
        """Row and file of each pair of the dataset, read once."""
        self.files: list[str] = []
        self._writes(self.parts.cut)

    def measuring(self, inner: Callable[..., Any], trains: Callable[[], bool]) -> Any:
        """Return ``dpo_loss``, keeping what it is given while ``trains``."""

        def dpo_loss(*given: Any, **named: Any) -> Any:
            found = inner(*given, **named)
            if self.counts and trains():
                values = [*given[:4], found[1] - found[2]]
                self.open.append(torch.stack([each.detach().float() for each in values]))
            return found

        return dpo_loss

    def before(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that saves a checkpoint after the ledger has its pairs."""

        def saved(*given: Any, **named: Any) -> Any:
            self.flush()
            return save(*given, **named)

        return saved

    def end_step(self, step: int, epoch: Callable[[int], int]) -> None:
        """Keep the pairs of a step; ``epoch`` gives that of a microbatch, from 0."""
        drawn, values, self.open = CURRENT.own(), self.open, []
        if not values:
            return
        if not drawn or len(values) % len(drawn):
            self._warn(f"{len(values)} losses of {len(drawn)} batches")
            return
        several = len(values) // len(drawn)  # a list of loss types: each has its call
        epochs = [epoch(n) + 1 for n in range(len(drawn))]
        self.steps.append((step, drawn, epochs, gpu.fetch(torch.cat(values[::several], 1))))

    def flush(self) -> None:
        """Gather the pairs of all ranks; rank 0 writes them. All ranks must call it."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found: list[Any] = [joined([each for step in self.steps if (each := self._columns(*step))])]
        self.steps = []
        if dist.is_initialized():
            mine, found = found[0], [None] * dist.get_world_size()
            dist.all_gather_object(found, mine)
        if not dist.is_initialized() or dist.get_rank() == 0:
            kept = [each for each in found if each]
            self._writes(lambda: self._write(kept))

    def _write(self, kept: list[Any]) -> None:
        texts = _texts(CURRENT.dataset)
        names = getattr(texts, "column_names", ())
        if not kept:
            return
        if not {ROW, FILE} <= set(names):
            self._warn("the rows have no numbers, since the cache of tokens did not make them")
            return
        columns = dict(joined(kept))
        _, step = np.unique(columns["step"], return_inverse=True)
        columns["weight"] /= np.bincount(step, columns["weight"])[step]
        if self.numbers is None:
            table = texts.select_columns([ROW, FILE]).with_format("arrow")[:]
            named = table[FILE].combine_chunks().dictionary_encode()
            self.files = named.dictionary.to_pylist()
            self.numbers = table[ROW].to_numpy(), named.indices.to_numpy()
        columns["row"], columns["file"] = (each[columns["pair"]] for each in self.numbers)
        self.parts.write(columns, self.files, len(texts))

    def _columns(
        self, step: int, drawn: list[list[int]], epochs: Sequence[int], values: torch.Tensor
    ) -> dict[str, Any] | None:
        """Return the pairs of a step as columns; None, with a warning, if they do not agree."""
        packs = getattr(CURRENT.dataset, "packed_idx", None)
        found = [
            (epoch, pair, -1 if packs is None else index, 1.0 if self.is_equal else 1 / len(rows))
            for batch, epoch in zip(drawn, epochs, strict=True)
            for rows in [rows_of(CURRENT.dataset, batch)]
            for index in batch
            for pair in rows_of(CURRENT.dataset, [index])
        ]
        if len(found) != values.shape[1]:
            self._warn(f"step {step}: {values.shape[1]} losses of {len(found)} pairs")
            return None
        epoch, pair, pack, weight = map(np.array, zip(*found, strict=True))
        numbers = dict(zip(MEASURED, values.numpy(), strict=True))
        counted = {"step": np.full(len(found), step), "epoch": epoch, "pair": pair, "pack": pack}
        return {**counted, "weight": weight, **numbers}

    def _writes(self, write: Callable[[], None]) -> None:
        """Change the ledger; a storage that fails does not end training."""
        if dist.is_initialized() and dist.get_rank():
            return
        try:
            write()
        except (OSError, ValueError, LaunchError) as error:
            self._warn(str(error))

    def _warn(self, cause: str) -> None:
        if not self.warned:
            logs.warning("pairs are not recorded", cause=cause)
        self.warned.add(cause)


def _texts(dataset: Any) -> Any:
    while hasattr(dataset, "dataset"):  # packs of tokenised rows
        dataset = dataset.dataset
    return dataset
