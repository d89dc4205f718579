"""Distribute the packs of a step evenly over the replicas, and report how full they are.

Upstream chooses the packs of a step (``swift/megatron/trainers/batch_sampler.py``, a permutation
seeded by the epoch, since 4.6.0 by ``data_seed`` plus the epoch); ``packs/dealing.py`` assigns them
to replicas and rounds. All ranks verify that they see the same data before the first step.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import swift.dataset.packing as datasets
import torch
import torch.distributed as dist
from swift.dataset import PackingDataset
from swift.megatron.arguments import MegatronArguments
from swift.megatron.trainers.base import BaseMegatronTrainer
from swift.megatron.trainers.batch_sampler import MegatronPretrainingRandomSampler
from swift.utils import get_logger

from launchers.exits import Exit, LaunchError
from launchers.plan import model_config
from launchers.progress.training import PACKING
from launchers.reference.pairs import SHARED
from launchers.system.atomic_file import read_object, replace
from launchers.training.packs import dealing
from launchers.training.packs.dealing import Round
from launchers.training.packs.packing_record import Packs, Report, report

_create = BaseMegatronTrainer._create_dataloader
_init_iters = MegatronArguments.init_iters
_spawn: Any = getattr(datasets, "_spawn_workers", None)  # 4.4 has none: it forks
_logger = get_logger()


class DealtSampler:
    """Yields this replica's microbatches; a resumed run gets the same ones from its step on."""

    def __init__(self, upstream: Any, costs: list[float], rows: list[int], batch: int) -> None:
        """Take over the settings of upstream's sampler."""
        self.total_samples = int(upstream.total_samples)
        self.consumed_samples = int(upstream.consumed_samples)
        self.micro, self.replicas = int(upstream.micro_batch_size), int(upstream.data_parallel_size)
        self.replica = int(upstream.data_parallel_rank)
        self.seed = int(getattr(upstream, "seed", 0))  # ms-swift 4.4.1 has none
        self.costs, self.rows, self.batch = costs, rows, batch
        self.round = self.micro * self.replicas
        self.first_sample = self.consumed_samples

    def __len__(self) -> int:
        """Return the number of packs, as upstream does."""
        return self.total_samples

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the microbatches that are left of the epoch."""
        epoch, done = divmod(self.consumed_samples, self.usable)
        begun = (self.consumed_samples - self.first_sample) % self.batch
        for batches in self.rounds(epoch, done, self.batch - begun):
            self.consumed_samples += self.round
            yield batches[self.replica]

    @property
    def usable(self) -> int:
        """Return the number of packs of an epoch that fill whole rounds."""
        return self.total_samples // self.round * self.round

    def shuffled(self, epoch: int) -> list[int]:
        """Return upstream's order of an epoch, cut to whole rounds."""
        generator = torch.Generator()
        generator.manual_seed(self.seed + epoch)
        count = self.total_samples // self.micro * self.micro
        order: list[int] = torch.randperm(count, generator=generator).tolist()
        return order[: self.usable]

    def rounds(self, epoch: int, done: int, first: int) -> Iterator[Round]:
        """Yield the rounds of an epoch after ``done`` packs; ``first`` is ``dealing.epoch``'s."""
        sizes = {"replicas": self.replicas, "micro": self.micro, "batch": self.batch}
        return dealing.epoch(self.shuffled(epoch)[done:], self.costs, **sizes, first=first)

    def rows_of_step(self, consumed: int) -> int:
        """Return the rows of a step over all its packs, before it is dealt to the replicas.

        ``consumed``: packs of the steps before it, as upstream counts them.
        """
        found: list[int] = []
        while len(found) < self.batch:  # a step may begin in one epoch and end in the next
            epoch, done = divmod(consumed + len(found), self.usable)
            found += self.shuffled(epoch)[done : done + self.batch - len(found)]
        return sum(self.rows[pack] for pack in found)


def init_iters(self: Any, train_dataset: Any, val_dataset: Any) -> None:
    """Compute the number of steps as upstream does, before the model is built; refuse zero."""
    _init_iters(self, train_dataset, val_dataset)
    dealing.refuse_no_step(
        len(train_dataset),
        replicas=self.data_parallel_size,
        micro=self.micro_batch_size,
        batch=self.global_batch_size,
        steps=self.train_iters,
    )


def spawn_workers(ctx: Any, *, target: Any, jobs: list[Any]) -> list[Any]:
    """Start workers as upstream does, but pack in a thread where it would spawn one process.

    From ms-swift 4.5 on that process imports the training stack first: 7 to 10 s a dataset.
    """
    packs = target is PackingDataset.create_packed_idx
    if not packs or len(jobs) > 1 or ctx.get_start_method() != "spawn":
        return list(_spawn(ctx, target=target, jobs=jobs))
    thread = Thread(target=target, args=jobs[0], daemon=True)
    thread.start()
    return [thread]


def create_dataloader(self: Any, dataset: Any, batch_sampler: Any) -> Any:
    """Create upstream's loader; packs in random order get ``DealtSampler``."""
    if (
        isinstance(dataset, PackingDataset)
        and isinstance(batch_sampler, MegatronPretrainingRandomSampler)
        and batch_sampler.shuffle
        and not batch_sampler.data_sharding
        and not batch_sampler.group_by_length
    ):
        batch_sampler = self.dealt_sampler = _dealt(self.args, dataset, batch_sampler)
    return _create(self, dataset, batch_sampler)


def _dealt(args: Any, dataset: Any, upstream: Any) -> DealtSampler:
    lengths = [n if isinstance(n, list) else [n] for n in dataset.dataset["lengths"]]
    lazy, packed = dataset.dataset, dataset.packed_idx
    names = getattr(getattr(lazy, "dataset", None), "column_names", ())
    cuts = list(lazy[SHARED]) if SHARED in names else ()
    packs = Packs(texts=lengths, packs=packed, length=dataset.packing_length, shared=cuts)
    _compare(packs.digest())
    try:
        text = (Path(args.model) / "config.json").read_text(encoding="utf-8")
        cost = dealing.cost(model_config.parse_config(json.loads(text)))
    except (OSError, ValueError, LaunchError) as error:
        _logger.warning("packing: packs are distributed by tokens, without attention: %s", error)
        cost = dealing.TOKENS
    rows = [len(pack) for pack in packs.packs]
    sampler = DealtSampler(upstream, packs.costs(cost), rows, args.global_batch_size)
    if not dist.is_initialized() or dist.get_rank() == 0:
        _publish(report(packs, cost, list(sampler.rounds(0, 0, sampler.batch))))
    return sampler


def _compare(digest: str) -> None:
    """Verify that all ranks train on the same packs."""
    if not dist.is_initialized():
        return
    seen: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(seen, digest)
    others = [rank for rank, each in enumerate(seen) if each != seen[0]]
    if others:
        raise LaunchError(
            Exit.DATA,
            f"ranks {others} have other rows or packs than rank 0 ({digest[:12]})",
            "make the dataset plugin return the same rows on every rank",
            id="packs-differ",
        )


def _publish(seen: Report) -> None:
    """Log the report, and write it to the attempt's folder."""
    _logger.info("packing %s", json.dumps(seen.document()))
    for complaint in seen.complaints():
        _logger.warning("packing: %s", complaint)
    if folder := os.environ.get("DPO_ATTEMPT_FOLDER"):
        try:
            path = Path(folder) / PACKING
            document = {**read_object(path), **seen.document()}
            replace(path, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            _logger.warning("packing: the report is not written: %s", error)


def install() -> None:
    """Replace the trainer's data loader, the computation of its steps, and how packing starts."""
    BaseMegatronTrainer._create_dataloader = create_dataloader
    MegatronArguments.init_iters = init_iters
    if _spawn:
        datasets._spawn_workers = spawn_workers
