"""The one pass that takes the reference's log-probabilities from the untrained policy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from megatron.core.pipeline_parallel import get_forward_backward_func
from swift.megatron.utils import (
    disable_forward_pre_hook,
    enable_forward_pre_hook,
    should_disable_forward_pre_hook,
)
from swift.utils import get_current_device
from swift.version import __version__
from torch.utils.data import DataLoader

from launchers import logs
from launchers.training.reference import store
from launchers.training.reference.keep import Batch, Keeper
from launchers.training.reference.loss import bounds_of, sums
from launchers.training.reference.open import Opened, open_store, record
from launchers.training.reference.pair_id import pair_id, rows_of, tokens
from launchers.training.reference.policy import ROUND, batches
from launchers.training.reference.store import Pairs


def take(trainer: Any, datasets: list[Any]) -> Pairs:
    """Return the reference's log-probabilities of all pairs of the datasets, on every rank.

    Rank 0 reads and judges the store; the others get what it found over the network, because a
    shared file system may show them an older state.
    """
    home = Path(os.environ.get("TRAINING_HOME") or trainer.args.output_dir)
    opened = _from_rank_0(
        partial(open_store, home, trainer.args, trainer.state.iteration, __version__)
    )
    if not opened.complete:
        opened = _pass(trainer, [d for d in datasets if d is not None], opened)
    if dist.get_rank() == 0:
        record(home, opened)
        line = logs.line("reference", source=opened.source, store=opened.folder, **opened.cost)
        print(line, flush=True)
    return opened.pairs


def _from_rank_0(find: Callable[[], Opened]) -> Opened:
    """Return what rank 0 found; its error is every rank's."""
    told: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            told = [find()]
        except Exception as error:
            told = [error]
    dist.broadcast_object_list(told)
    if isinstance(told[0], Exception):
        raise told[0]
    found: Opened = told[0]
    return found


def _pass(trainer: Any, datasets: list[Any], opened: Opened) -> Opened:
    """Run the policy forward over all pairs that no earlier pass has left."""
    started, left = time.monotonic(), len(opened.pairs)
    # of the ranks that take the same pairs, one keeps them
    keeps = mpu.is_pipeline_last_stage() and mpu.get_tensor_model_parallel_rank() == 0
    keeper = Keeper(opened.folder, keeps=keeps, tells=dist.get_rank() == 0)
    with forward_only(trainer):
        for dataset in datasets:
            for batch, counts in rounds(trainer, dataset, opened.pairs):
                keeper.keep(*forward(trainer, batch, counts))
    keeper.flush()
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, (store.pack(keeper.pairs), keeper.tokens))
    for data, _ in found:
        store.add(opened.pairs, store.unpack(data).items(), opened.folder)
    torch.cuda.empty_cache()
    taken = sum(count for _, count in found)
    done = opened.after(time.monotonic() - started, taken, len(found), left=left)
    if dist.get_rank() == 0:
        store.complete(done.folder, done.pairs, done.cost)
    dist.barrier()  # whoever dies from here on finds the store whole
    return done


@contextmanager
def forward_only(trainer: Any) -> Iterator[None]:
    """Put the policy into the state in which ms-swift runs a reference, and back."""
    hooked = should_disable_forward_pre_hook(trainer.args)
    if hooked:  # they wait for a gather of parameters, and none is under way
        disable_forward_pre_hook(trainer.wrapped_models, param_sync=False)
    for model in trainer.wrapped_models:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for model in trainer.wrapped_models:
            model.train()
        if hooked:
            enable_forward_pre_hook(trainer.wrapped_models)


def rounds(
    trainer: Any, dataset: Any, known: Pairs
) -> Iterator[tuple[Iterable[Batch], list[bool]]]:
    """Yield this rank's micro-batches by some, and which of them count.

    Left out is what an earlier pass has; all ranks agree on that, because experts are spread over
    them. Otherwise a batch is read when its turn comes, so that the GPU does not wait for many. A
    generator of its own leaves the training's random state alone.
    """
    args = trainer.args
    rank, ranks = mpu.get_data_parallel_rank(), mpu.get_data_parallel_world_size()
    own = list(batches(len(dataset), args.micro_batch_size, rank, ranks))
    workers = args.dataloader_num_workers
    loader = DataLoader(
        dataset,
        batch_sampler=[indices for indices, _ in own],
        num_workers=workers,
        pin_memory=args.dataloader_pin_memory,
        prefetch_factor=args.dataloader_prefetch_factor if workers > 0 else None,
        collate_fn=Naming(trainer.plain_collator),
        generator=torch.Generator(),
    )
    made = iter(loader)
    for start in range(0, len(own), ROUND):
        counts = [counts for _, counts in own[start : start + ROUND]]
        batch: Iterable[Batch] = islice(made, len(counts))
        if known:
            batch = list(batch)
            if _agree(all(name in known for micro in batch for name in micro.names)):
                continue
        yield batch, counts


class Naming:
    """A collator that says which pairs a batch holds."""

    def __init__(self, inner: Any) -> None:
        """Wrap ms-swift's collator."""
        self.inner = inner

    def __call__(self, batch: list[Any]) -> Batch:
        """Name the pairs before the collator pads them."""
        rows = rows_of(batch)
        names, count = [pair_id(row) for row in rows], sum(map(tokens, rows))
        return Batch(names, count, self.inner(batch))


def _agree(yes: bool) -> bool:
    """Tell whether all ranks say yes."""
    told = torch.tensor(int(yes), device=get_current_device())
    dist.all_reduce(told, dist.ReduceOp.MIN)
    return bool(told.item())


def forward(
    trainer: Any, batch: Iterable[Batch], counts: list[bool]
) -> tuple[list[Batch], list[bool], list[list[float]]]:
    """Return some micro-batches with their log-probabilities; none but on the last stage."""
    taken: list[Batch] = []

    def inputs() -> Iterator[dict[str, Any]]:
        for micro in batch:
            taken.append(micro)
            yield micro.inputs

    run = get_forward_backward_func()
    found = run(
        forward_step_func=partial(_step, trainer),
        data_iterator=inputs(),
        model=trainer.wrapped_models,
        num_microbatches=len(counts),
        seq_length=trainer.args.seq_length,
        micro_batch_size=trainer.args.micro_batch_size,
        forward_only=True,
    )
    return taken, counts, [values.tolist() for values in found]


def _step(trainer: Any, data_iterator: Any, model: Any) -> tuple[Any, Any]:
    data = trainer.get_batch(data_iterator, model.module.module.vp_stage)
    data.pop("loss_scale", None)
    told = {"labels": data.get("labels"), "packed": data.get("packed_seq_params")}
    return model(**data), partial(_summed, **told)


def _summed(output: Any, *, labels: Any, packed: Any) -> tuple[Any, Any]:
    """Return a loss, which the schedule scales in place, and what it collects."""
    values = sums(output, labels, bounds_of(packed))
    return values.new_zeros(()), values
