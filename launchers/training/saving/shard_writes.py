"""Write a model's safetensors while its next weights are gathered.

mcore-bridge copies each weight to the host, once more there (``gpt_bridge.py: _set_mlp_state``:
``clone``), and writes a shard of 5 GB whenever so much is there, all in one thread: 1.5 s for a
layer of Qwen3-30B-A3B. Here the second copy is made on the GPU, and threads write the shards,
``WRITERS`` at most at a time, so that host memory holds one more. What is written gives its memory
to the next weights, and threads touch new memory: a layer takes 1.0 s into new memory, 0.1 s into
memory in use (tests/bench/notes/restarts.md). The files have the bytes of
``safetensors.torch.save_file``.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from mcore_bridge.bridge import gpt_bridge
from mcore_bridge.utils import safetensors as upstream
from safetensors.torch import save_file

from launchers import logs

WRITERS = 3
TOUCHING = 8
"""Threads that touch new memory: the kernel maps it page by page, each time by one thread."""
NEW_BYTES = 2**28
"""New memory that is touched at once, for weights of the same size."""
NEW_WEIGHTS = 64
"""Weights at most that it is for."""
COPIES = 4
"""Times the weights of a layer that its export holds on the GPU at most: those of all experts, one
rank's experts as they are gathered and as they are split, and a spare one."""
TYPES = {
    # safetensors' own order: widest first
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint8: "U8",
}
_export = gpt_bridge.GPTBridge.export_weights


def write(tensors: Mapping[str, torch.Tensor], path: str) -> None:
    """Write a file of safetensors; the writes themselves do not hold the interpreter's lock.

    ``tensors`` are on the host; types that are not in ``TYPES`` are left to safetensors.
    """
    if any(each.dtype not in TYPES for each in tensors.values()):
        save_file(dict(tensors), path)
        return
    order = list(TYPES)
    names = sorted(tensors, key=lambda name: (order.index(tensors[name].dtype), name))
    header, at = {}, 0
    for name in names:
        tensor = tensors[name]
        end = at + tensor.nbytes
        offsets, at = [at, end], end
        header[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": offsets,
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with Path(path).open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            stream.write(tensors[name].reshape(-1).view(torch.uint8).numpy())


class Saver(upstream.StreamingSafetensorSaver):  # type: ignore[misc]
    """Writes shards in threads; renames and lists them when all are written."""

    current_shard: dict[str, torch.Tensor]
    current_shard_size: int

    def __init__(self, *given: Any, **named: Any) -> None:
        """Prepare the folder."""
        super().__init__(*given, **named)
        self._pool = ThreadPoolExecutor(WRITERS)  # threads begin with the first shard
        self._touching = ThreadPoolExecutor(TOUCHING)
        self._begun: deque[Future[None]] = deque()
        self._free: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        """Host memory that is not in use, by its bytes."""
        self._began, self._waited = time.time(), 0.0

    def add_tensor(self, name: str, tensor: torch.Tensor) -> None:
        """Add a weight to the shard, in memory of an earlier one if there is some."""
        if not self.is_save_rank:
            return
        if not self._free[tensor.nbytes]:
            self._free[tensor.nbytes] = self._new(tensor.nbytes)
        memory = self._free[tensor.nbytes].pop()
        copy = memory.view(tensor.dtype).view(tensor.shape)
        super().add_tensor(name, copy.copy_(tensor))

    def _new(self, size: int) -> list[torch.Tensor]:
        """Return new memory for some weights of ``size`` bytes."""
        count = max(1, min(NEW_WEIGHTS, NEW_BYTES // size)) if size else 1
        memory = torch.empty(count * size, dtype=torch.uint8)
        list(self._touching.map(torch.Tensor.zero_, memory.chunk(TOUCHING)))
        return list(memory.view(count, size))

    def _write(self, shard: Mapping[str, torch.Tensor], path: str) -> None:
        write(shard, path)
        for tensor in shard.values():
            self._free[tensor.nbytes].append(tensor.reshape(-1).view(torch.uint8))

    def _save_current_shard(self, shard_filename: str | None = None) -> None:
        """Write a shard; wait where enough are being written."""
        if not self.current_shard:
            return
        usual = f"model-{self.shard_index:05d}-of-?????.safetensors"
        name = shard_filename or ("adapter_model.safetensors" if self.peft_format else usual)
        self._wait(WRITERS - 1)
        path = str(Path(self.save_dir) / name)
        self._begun.append(self._pool.submit(self._write, self.current_shard, path))
        self.weight_map |= dict.fromkeys(self.current_shard, name)
        self.total_size += self.current_shard_size
        self.current_shard, self.current_shard_size = {}, 0
        self.shard_index += 1

    def finalize(self) -> None:
        """Write what is left, wait for all, and end as upstream does.

        Raises:
            OSError: of a write.
        """
        if self.is_save_rank:
            self._save_current_shard()
        self._wait(0)
        self._pool.shutdown()
        self._touching.shutdown()
        super().finalize()
        if self.is_save_rank:
            print(logs.format_event("safetensors written", **self._times()), flush=True)

    def _wait(self, count: int) -> None:
        """Wait until at most ``count`` shards are being written."""
        begin = time.time()
        while len(self._begun) > count:
            self._begun.popleft().result()
        self._waited += time.time() - begin

    def _times(self) -> dict[str, object]:
        """Return the folder, its bytes, begin (UTC), duration, and wait for writes in seconds."""
        return {
            "folder": Path(self.save_dir).name,
            "bytes": self.total_size,
            "began": time.strftime("%H:%M:%S", time.gmtime(self._began)),
            "seconds": round(time.time() - self._began, 1),
            "waited": round(self._waited, 1),
        }


def export_weights(self: Any, mg_models: Any, target_device: Any = None, **named: Any) -> Any:
    """Export as upstream does; what is saved is copied to the host when it is complete."""
    if named.get("_is_saving") and torch.cuda.is_available() and _has_room(self, mg_models):
        target_device = None
    return _export(self, mg_models, target_device, **named)


def _has_room(bridge: Any, models: Any) -> bool:
    """Return whether each rank's GPU has room for the gathered weights of a layer.

    From 1.6.5 on mcore-bridge otherwise gathers to the host in chunks of 256 MiB, on all ranks or
    on none: 1.8 s for a layer of Qwen3-30B-A3B instead of 0.8 (tests/bench/notes/restarts.md).
    """
    if not hasattr(bridge, "_stream_to_cpu"):
        return True
    sizes = Counter[str]()
    for model in models:
        for name, weight in model.named_parameters():
            layer = re.match(r".*layers\.\d+\.", name)
            sizes[layer[0] if layer else name] += weight.nbytes
    free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
    parts = max(bridge.ep_size * bridge.etp_size, bridge.tp_size)
    needed = COPIES * parts * max(sizes.values(), default=0)
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, free - torch.cuda.memory_allocated() > needed)
    return all(found)


def install() -> None:
    """Replace the writes of shards, and where weights lie before."""
    gpt_bridge.StreamingSafetensorSaver = Saver
    gpt_bridge.GPTBridge.export_weights = export_weights
