"""Loaded into ms-swift's Megatron trainer: measures saves, and sums up the state at each of them.

Each rank appends lines to ``saves-<rank>.jsonl`` in the attempt's folder. ``save``: step, seconds
for which the save stopped training, and sums over the bits of weights and optimizer state.
``load``: the same sums before the first step of an attempt that resumed. Equal sums of a save and
of the load after it mean that no bit was lost. The callback is named after the last of ours, so its
time ends when training continues.
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
from swift.megatron.trainers.base import BaseMegatronTrainer

PART = 2**26
"""Elements that are summed at a time."""
_begun = [0.0]
_save = BaseMegatronTrainer.save_checkpoint


def save_checkpoint(self: Any) -> None:
    torch.cuda.synchronize()
    _begun[0] = time.monotonic()
    _save(self)


def sums(tensor: torch.Tensor) -> list[int]:
    """Return the sum of a tensor's bits as numbers, and that weighted by their places."""
    wide = tensor.detach().reshape(-1).view(torch.int16)
    plain = weighted = 0
    for first in range(0, wide.numel(), PART):
        part = wide[first : first + PART].to(torch.int64)
        places = torch.arange(first, first + part.numel(), device=part.device) % 65521 + 1
        plain += int(part.sum())
        weighted += int((part * places).sum())
    return [plain, weighted]


def state(trainer: Any) -> dict[str, list[int]]:
    """Return the sums of this rank's weights, remainders and moments."""
    total: dict[str, list[int]] = {}

    def add(name: str, tensor: torch.Tensor) -> None:
        if tensor.numel():
            found = total.setdefault(name, [0, 0, 0])
            for place, value in enumerate((*sums(tensor), tensor.numel())):
                found[place] += value

    for model in trainer.unwrapped_models:
        for weight in model.parameters():
            add(f"weight {weight.dtype}", weight)
    for part in getattr(trainer.optimizer, "chained_optimizers", [trainer.optimizer]):
        for kept in part.optimizer.state.values():
            for name, value in kept.items():
                if isinstance(value, torch.Tensor):
                    add(f"{name} {value.dtype}", value)
    return total


class SavesProbeCallback(MegatronCallback):  # type: ignore[misc]
    def on_train_begin(self) -> None:
        if self.state.iteration:
            self.write("load", sums=state(self.trainer))

    def on_save(self, output_dir: str) -> None:
        """Note how long the save has stopped training, then sum up what was saved."""
        torch.cuda.synchronize()
        seconds = time.monotonic() - _begun[0]
        peak = torch.cuda.max_memory_allocated()
        self.write("save", seconds=seconds, peak=peak, sums=state(self.trainer))

    def write(self, what: str, **found: Any) -> None:
        path = Path(os.environ["DPO_ATTEMPT_FOLDER"]) / f"saves-{dist.get_rank()}.jsonl"
        with path.open("a") as stream:
            line = {"what": what, "step": self.state.iteration, "time": time.time(), **found}
            stream.write(json.dumps(line) + "\n")


BaseMegatronTrainer.save_checkpoint = save_checkpoint
megatron_callbacks_map["saves_probe"] = SavesProbeCallback
