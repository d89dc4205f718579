"""Compute the reference's log-probabilities with one forward pass of the untrained policy."""

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
from launchers.hang.heartbeat import current as heartbeat
from launchers.reference import store
from launchers.reference.fingerprint import Machine
from launchers.reference.loss import bounds_of, sums
from launchers.reference.pairs import ROUND, batches, pair_id, rows_of, tokens
from launchers.reference.part_writer import Batch, PartWriter
from launchers.reference.run_store import Opened, open_store, record
from launchers.reference.store import Pairs
from launchers.system.step_board import Phase
from launchers.training.installed import INSTALLED
from launchers.upstream import source
from launchers.upstream.record import PACKAGES


def take(trainer: Any, datasets: list[Any]) -> Pairs:
    """Return the reference's log-probabilities of all pairs of the datasets, on every rank.

    Rank 0 reads the store and sends it to the others over the network, because a shared file system
    may show them an older state.
    """
    home = Path(os.environ.get("DPO_RUN_FOLDER") or trainer.args.output_dir)
    opened = _from_rank_0(
        lambda: open_store(home, trainer.args, trainer.state.iteration, machine())
    )
    if not opened.complete:
        opened = _pass(trainer, [d for d in datasets if d is not None], opened)
    trainer.reference_source = opened.source
    if dist.get_rank() == 0:
        record(home, opened)
        line = logs.format_event(
            "reference", source=opened.source, store=opened.folder, **opened.cost
        )
        print(line, flush=True)
    return opened.pairs


def machine() -> Machine:
    """Return this process's software and GPU, with the version of ms-swift that it imported."""
    return Machine(
        versions={**{name: source.version(name) for name in PACKAGES}, "ms-swift": __version__},
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        features=tuple(INSTALLED),
        env=os.environ,
    )


def _from_rank_0(find: Callable[[], Opened]) -> Opened:
    """Return rank 0's result on every rank; an error of rank 0 is raised on every rank."""
    sent: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            sent = [find()]
        except Exception as error:
            sent = [error]
    dist.broadcast_object_list(sent)
    if isinstance(sent[0], Exception):
        raise sent[0]
    found: Opened = sent[0]
    return found


def _pass(trainer: Any, datasets: list[Any], opened: Opened) -> Opened:
    """Run the policy forward over all pairs that no earlier pass has stored."""
    started, left = time.monotonic(), len(opened.pairs)
    # of the ranks that compute the same pairs, one keeps them
    keeps = mpu.is_pipeline_last_stage() and mpu.get_tensor_model_parallel_rank() == 0
    writer = PartWriter(opened.folder, keeps=keeps, logs_progress=dist.get_rank() == 0)
    with forward_only(trainer), heartbeat().phase(Phase.REFERENCE, Phase.START):
        for dataset in datasets:
            for batch, counts in rounds(trainer, dataset, opened.pairs):
                writer.keep(*forward(trainer, batch, counts))
    writer.flush()
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, (store.pack(writer.pairs), writer.tokens))
    for data, _ in found:
        store.add(opened.pairs, store.unpack(data).items(), opened.folder)
    torch.cuda.empty_cache()
    taken = sum(count for _, count in found)
    done = opened.after(time.monotonic() - started, taken, len(found), left=left)
    if dist.get_rank() == 0:
        store.complete(done.folder, done.pairs, done.cost)
    dist.barrier()  # an interruption from here on finds the store complete
    return done


@contextmanager
def forward_only(trainer: Any) -> Iterator[None]:
    """Put the policy into the state in which ms-swift runs a reference, and restore it."""
    hooked = should_disable_forward_pre_hook(trainer.args)
    if hooked:  # the hooks wait for a gather of parameters, and none is running
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
    """Yield this rank's micro-batches, ``ROUND`` at a time, and for each whether it counts.

    Rounds that an earlier pass has stored on all ranks are skipped; all ranks agree on that,
    because experts are distributed over them. Without stored pairs a batch is read when its turn
    comes, so that the GPU does not wait for a whole round. A separate generator leaves the
    training's random state unchanged.
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
    """A collator that adds the ids of a batch's pairs."""

    def __init__(self, inner: Any) -> None:
        """Wrap ms-swift's collator."""
        self.inner = inner

    def __call__(self, batch: list[Any]) -> Batch:
        """Compute the ids before the collator pads the rows."""
        rows = rows_of(batch)
        names, count = [pair_id(row) for row in rows], sum(map(tokens, rows))
        return Batch(names, count, self.inner(batch))


def _agree(yes: bool) -> bool:
    agreed = torch.tensor(int(yes), device=get_current_device())
    dist.all_reduce(agreed, dist.ReduceOp.MIN)
    return bool(agreed.item())


def forward(
    trainer: Any, batch: Iterable[Batch], counts: list[bool]
) -> tuple[list[Batch], list[bool], list[list[float]]]:
    """Return micro-batches with their log-probabilities, which only the last stage has."""
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
    given = {"labels": data.get("labels"), "packed": data.get("packed_seq_params")}
    return model(**data), partial(_summed, **given)


def _summed(output: Any, *, labels: Any, packed: Any) -> tuple[Any, Any]:
    """Return a zero loss, which the schedule scales in place, and the sums that it collects."""
    values = sums(output, labels, bounds_of(packed))
    return values.new_zeros(()), values
