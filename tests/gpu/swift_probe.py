"""Loaded into ms-swift's Megatron trainer: writes each rank's memory and step times as JSON.

``PROBE`` names the folder; after every step ``rank-<N>.json`` holds the peak of allocated and of
reserved memory so far in bytes, and the seconds of each step.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map


class ProbeCallback(MegatronCallback):  # type: ignore[misc]
    """Measures this rank."""

    def on_train_begin(self) -> None:
        """Note what the weights alone take."""
        self.begun = time.monotonic()
        self.seconds: list[float] = []
        self.static = torch.cuda.memory_allocated()

    def on_step_end(self) -> None:
        """Write what was seen until now: a run that dies later has left its steps."""
        torch.cuda.synchronize()
        now = time.monotonic()
        self.seconds.append(round(now - self.begun, 4))
        self.begun = now
        seen: dict[str, Any] = {
            "before_training": self.static,
            "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "seconds": self.seconds,
        }
        path = Path(os.environ["PROBE"]) / f"rank-{dist.get_rank()}.json"
        path.write_text(json.dumps(seen), encoding="utf-8")


megatron_callbacks_map["probe"] = ProbeCallback
