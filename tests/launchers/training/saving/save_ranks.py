"""Ranks that save with megatron-core's own strategy, in the background; run by torchrun on CPU.

``-m tests.launchers.training.saving.save_ranks CASE FOLDER``: each rank prints a line of JSON.
"""

import hashlib
import importlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers.exits import LaunchError
from launchers.stop import finished
from launchers.storage import checkpoint, chunk_digests, node_disk
from launchers.storage.checkpoint import Checkpoint
from launchers.training.saving import background
from launchers.training.saving.background import Writes
from launchers.training.saving.staging import Staging
from tests.launchers.training import megatron_on_cpu

SHAPES = {"weight": (64, 16), "master": (1000,), "moment": (999,), "empty": (0, 4)}
DTYPES = {"weight": torch.bfloat16, "master": torch.int16, "moment": torch.bfloat16}


def state(rank: int, step: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(100 * step + rank)
    made = {
        name: torch.randn(shape, generator=random).mul(1000).to(DTYPES.get(name, torch.float32))
        for name, shape in SHAPES.items()
        if name != "empty"
    }
    return made | {"strided": torch.randn(8, 6, generator=random).t()}


def sharded(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return what megatron-core saves, or loads into: this rank's part of global tensors."""
    core = importlib.import_module("megatron.core.dist_checkpointing")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mapping = importlib.import_module("megatron.core.dist_checkpointing.mapping")
    made: dict[str, Any] = {
        name: core.ShardedTensor.from_rank_offsets(f"model.{name}", tensor, (0, rank, ranks))
        for name, tensor in tensors.items()
    }
    made["random"] = mapping.ShardedObject("random", {"of": rank}, (ranks,), (rank,))
    return made | {"iteration": 3}


def strategies() -> tuple[Any, Any]:
    """Return megatron-core's strategies for saving and loading, as ms-swift builds them."""
    torch_dist = importlib.import_module("megatron.core.dist_checkpointing.strategies.torch")
    parallel = importlib.import_module("megatron.core.dist_checkpointing.strategies.fully_parallel")
    made = torch_dist.TorchDistSaveShardedStrategy
    try:
        pair = made(), torch_dist.TorchDistLoadShardedStrategy()
    except TypeError:  # megatron-core 0.16
        pair = made("torch_dist", 1), torch_dist.TorchDistLoadShardedStrategy()
    wrap = parallel.FullyParallelSaveStrategyWrapper, parallel.FullyParallelLoadStrategyWrapper
    return wrap[0](pair[0], dist.group.WORLD), wrap[1](pair[1], dist.group.WORLD)


def save(folder: Path, step: int) -> dict[str, torch.Tensor]:
    core = importlib.import_module("megatron.core.dist_checkpointing")
    tensors = state(dist.get_rank(), step)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    where = folder / f"checkpoint-{step}" / "iter_0000001"
    where.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    core.save(sharded(tensors), str(where), strategies()[0])
    for tensor in tensors.values():  # the next step
        tensor.zero_()
    writes = background.current()
    if writes is not None:
        made = folder / f"checkpoint-{step}"
        writes.start(
            step,
            void,
            lambda seconds: void(checkpoint.seal(made, step)),
            lambda written: node_disk.announce(made, written),
        )
    return kept


def void(*_: object) -> None:
    """Return nothing."""


def load(folder: Path, step: int) -> dict[str, torch.Tensor]:
    core = importlib.import_module("megatron.core.dist_checkpointing")
    tensors = {name: torch.zeros_like(t) for name, t in state(dist.get_rank(), step).items()}
    root = Path(os.environ[node_disk.FOLDER]) if node_disk.FOLDER in os.environ else None
    where = folder / f"checkpoint-{step}"
    if root is not None:
        where = node_disk.nearest(root, Checkpoint(path=where, step=step), 10).path
        assert where.is_relative_to(root)
    where = where / "iter_0000001"
    found: dict[str, torch.Tensor] = core.load(sharded(tensors), str(where), strategies()[1])
    return found


def digests(folder: Path, step: int) -> list[str]:
    shards = sorted((folder / f"checkpoint-{step}").rglob("*.distcp"))
    return [hashlib.sha256(shard.read_bytes()).hexdigest() for shard in shards]


def say(**found: Any) -> None:
    print(json.dumps({"rank": dist.get_rank(), **found}), flush=True)


def both(folder: Path) -> None:
    begin = time.monotonic()
    saved = {step: save(folder, step) for step in (1, 2)}
    stopped = time.monotonic() - begin
    background.finish()
    dist.barrier()
    say(
        same=[is_same(folder, step, saved[step]) for step in (1, 2)],
        object=load(folder, 2)["random"],
        sealed=sorted(c.step for c in checkpoint.complete(folder)),
        differ=not set(digests(folder, 1)) & set(digests(folder, 2)),
        stopped=stopped,
    )


def failing(folder: Path) -> None:
    """Save once; the second save fails on the rank whose file is full."""
    save(folder, 1)
    background.finish()
    where = folder / "checkpoint-2" / "iter_0000001"
    where.mkdir(parents=True, exist_ok=True)
    if dist.get_rank() == 1:
        (where / "__1_0.distcp").symlink_to("/dev/full")
    dist.barrier()
    save(folder, 2)
    error = None
    try:
        if dist.get_rank() == 1:
            background.finish()
    except LaunchError as found:
        error = {"id": found.id, "code": found.code, "cause": found.cause}
    dist.barrier()
    say(error=error, sealed=sorted(c.step for c in checkpoint.complete(folder)))
    dist.barrier()
    os._exit(0)


def is_same(folder: Path, step: int, tensors: dict[str, torch.Tensor]) -> bool:
    found = load(folder, step)
    return all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def staged(folder: Path) -> None:
    """Save twice by way of each node's disk; load the second without rank 1's shard elsewhere.

    From megatron-core 0.19 on, rank 0's shard has the common state, which all ranks read.
    """
    saved = {step: save(folder, step) for step in (1, 2)}
    background.finish()
    dist.barrier()
    sealed = sorted(c.step for c in checkpoint.complete(folder))
    kept = sorted(path.name for path in Path(os.environ[node_disk.FOLDER]).glob("checkpoint-*"))
    same = is_same(folder, 1, saved[1])
    dist.barrier()
    for shard in (folder / "checkpoint-2").rglob("__1_*.distcp"):
        shard.write_bytes(bytes(shard.stat().st_size))  # rank 1 alone reads it, from its disk
    dist.barrier()
    say(sealed=sealed, kept=kept, same=[same, is_same(folder, 2, saved[2])])


def cut(folder: Path) -> None:
    """Save twice; end in the copy of the second, of which a rank has copied a part."""
    save(folder, 1)
    background.finish()
    dist.barrier()
    begun, copy = threading.Event(), chunk_digests.copy

    def stuck(source: Path, target: Path, digests: str, flushed: Callable[[], None]) -> None:
        if dist.get_rank() == 1:
            copy(source, target, digests, flushed)
            target.write_bytes(target.read_bytes()[:100])
        begun.set()
        time.sleep(600)

    vars(chunk_digests)["copy"] = stuck
    save(folder, 2)
    begun.wait()
    while not (folder / "checkpoint-2" / checkpoint.PENDING).exists():
        time.sleep(0.01)
    dist.barrier()
    os._exit(0)


def resumed(folder: Path) -> None:
    """Load the newest checkpoint by way of each node's disk."""
    newest = checkpoint.newest(folder)
    assert newest is not None
    say(step=newest.step, same=is_same(folder, newest.step, state(dist.get_rank(), newest.step)))


def main() -> None:
    megatron_on_cpu.enter()
    vars(torch.cuda)["synchronize"] = void
    finished.end_at_exit()
    dist.init_process_group("gloo")
    case, folder = sys.argv[1], Path(sys.argv[2])
    store = dist.distributed_c10d._get_default_store()
    importlib.import_module("launchers.training.saving.save_megatron").install()
    written = "megatron.core.dist_checkpointing.strategies.filesystem_async"
    vars(importlib.import_module(written))["_results_queue"] = queue.Queue()  # 0.16: of a process
    staging = None
    if case in ("staged", "cut", "resumed"):  # a node per rank
        root = folder.parent / f"node-{dist.get_rank()}"
        os.environ |= {node_disk.FOLDER: str(root), "LOCAL_WORLD_SIZE": "1"}
        staging = Staging(dist.get_rank(), os.environ)
    writes = Writes(dist.get_rank(), dist.get_world_size(), store, staging)
    writes.reserve(100, pins=False)
    background.enable(writes)
    cases = (both, failing, staged, cut, resumed)
    {each.__name__: each for each in cases}[case](folder)


if __name__ == "__main__":
    main()
