"""Write a model's safetensors while its next weights are gathered.

mcore-bridge copies each weight to the host, once more there (``gpt_bridge.py: _set_mlp_state``:
``clone``), and writes a shard of 5 GB whenever so much is there, all in one thread: 1.5 s for a
layer of Qwen3-30B-A3B. Here the second copy is made on the GPU, and threads write the shards, two
at most at a time, so that host memory holds three. The files have the bytes of
``safetensors.torch.save_file``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from mcore_bridge.bridge import gpt_bridge
from mcore_bridge.utils import safetensors as upstream

WRITERS = 2
TYPES = {
    # safetensors' own order: widest first
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint8: "U8",
}
_save_file, _export = upstream.save_file, gpt_bridge.GPTBridge.export_weights


def write(tensors: Mapping[str, torch.Tensor], path: str) -> None:
    """Write a file of safetensors; the writes themselves do not hold the interpreter's lock."""
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


class Writes:
    """The shards that are being written."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._pool: ThreadPoolExecutor | None = None
        self._begun: deque[Future[None]] = deque()

    def submit(self, tensors: Mapping[str, torch.Tensor], path: str) -> None:
        """Write a shard, as ``save_file``; wait where enough are being written."""
        if any(each.dtype not in TYPES for each in tensors.values()):
            _save_file(tensors, path)
            return
        self._pool = self._pool or ThreadPoolExecutor(WRITERS)
        while len(self._begun) >= WRITERS:
            self._begun.popleft().result()
        self._begun.append(self._pool.submit(write, tensors, path))

    def finish(self) -> None:
        """Wait until all are written.

        Raises:
            OSError: of a write.
        """
        while self._begun:
            self._begun.popleft().result()


WRITES = Writes()


class Saver(upstream.StreamingSafetensorSaver):  # type: ignore[misc]
    """Renames and lists the shards when they are written."""

    def finalize(self) -> None:
        """Write what is left, wait for all, and end as upstream does."""
        if self.is_save_rank and self.current_shard:
            self._save_current_shard()
        WRITES.finish()
        super().finalize()


def export_weights(self: Any, mg_models: Any, target_device: Any = None, **named: Any) -> Any:
    """Export as upstream does; what is saved is copied to the host when it is complete.

    mcore-bridge 1.6.5 gathers to the host in chunks, to need no room on the GPU: that stays.
    """
    is_free = torch.cuda.is_available() and not hasattr(self, "_stream_to_cpu")
    if named.get("_is_saving") and is_free:
        target_device = None
    return _export(self, mg_models, target_device, **named)


def install() -> None:
    """Replace the writes of shards, and where weights lie before."""
    upstream.save_file = WRITES.submit
    gpt_bridge.StreamingSafetensorSaver = Saver
    gpt_bridge.GPTBridge.export_weights = export_weights
