"""Read the rows of each epoch in the order of that epoch, also after a resume.

ms-swift 4.4.1 has two errors in ``DataLoaderShard`` (``swift/dataloader/shard.py``):

- A resume builds the rest of an epoch as a new data loader (``swift/trainers/mixin.py:
  _patch_skip_first_batches``), which has the first epoch's order. transformers 5 sets the epoch
  after that, transformers 4 before: there a resume in a later epoch trains some rows twice and
  others never (ms-swift issue 10050, fixed in 4.5.3).
- With sequence parallelism the epoch never reaches the sampler: every epoch has the order of the
  first. In 4.6.0 it does, except in the rest of an epoch after a resume.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import transformers.trainer
from swift.dataloader import DataLoaderShard
from swift.trainers.mixin import SwiftMixin

_EPOCH = "dpo_epoch"
"""Attribute of a data loader: the epoch that was set last."""
_set_epoch = DataLoaderShard.set_epoch
_patch_skip_first_batches = SwiftMixin._patch_skip_first_batches


def set_epoch(self: Any, epoch: int) -> None:
    """Set the epoch as upstream does, and that of a sampler within torch's own ``BatchSampler``."""
    setattr(self, _EPOCH, epoch)
    _set_epoch(self, epoch)
    sampler: Any = getattr(self.batch_sampler, "sampler", None)
    sampler = getattr(sampler, "batch_sampler", sampler)  # accelerate's SkipBatchSampler
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


@contextmanager
def patch_skip_first_batches(self: Any) -> Iterator[None]:
    """Let transformers build the rest of an epoch as upstream does, for the epoch that was set."""
    with _patch_skip_first_batches(self):
        rebuild = transformers.trainer.skip_first_batches

        def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
            rebuilt = rebuild(dataloader, num_batches)
            if hasattr(dataloader, _EPOCH):
                rebuilt.set_epoch(getattr(dataloader, _EPOCH))
            return rebuilt

        transformers.trainer.skip_first_batches = skip_first_batches
        yield


def install() -> None:
    """Replace how a data loader learns its epoch, and how a resume builds the rest of one."""
    DataLoaderShard.set_epoch = set_epoch
    SwiftMixin._patch_skip_first_batches = patch_skip_first_batches
