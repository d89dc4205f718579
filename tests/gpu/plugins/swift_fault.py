"""Loaded into ms-swift's Megatron trainer: injects the fault that ``fault.json`` describes.

``launcher/matrix.py`` writes it to the folder ``fault`` of the workspace. The fault happens once,
in the first attempt, on one rank: at the begin of a step, or after a save and before its seal. The
time is written to ``injected`` in the same folder.
"""

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

HANG_SECONDS = 600


class FaultCallback(MegatronCallback):  # type: ignore[misc]
    """Injects the fault of this rank."""

    def on_train_begin(self) -> None:
        """Read what is planned."""
        self.folder = Path(os.environ["DPO_RUN_FOLDER"]).parents[1] / "fault"
        self.planned: dict[str, Any] = json.loads((self.folder / "fault.json").read_text())
        number = int(Path(os.environ["DPO_ATTEMPT_FOLDER"]).name)
        if int(self.planned["rank"]) != dist.get_rank() or number > 1:
            self.planned = {"at": "never"}

    def on_step_begin(self) -> None:
        """Inject a fault of a step; ``iteration`` counts the completed ones."""
        if self.planned["at"] == "step" and self.state.iteration + 1 == int(self.planned["step"]):
            self.inject()

    def on_save(self, output_dir: str) -> None:
        """Inject a fault of a save: the shards are written, the checkpoint is not sealed."""
        if self.planned["at"] == "save" and self.state.iteration == int(self.planned["step"]):
            self.inject()

    def inject(self) -> None:
        """Note the time, and do it."""
        (self.folder / "injected").write_text(f"{time.time()}\n")
        word = str(self.planned.get("word", ""))
        match self.planned["do"]:
            case "kill":
                os.kill(os.getpid(), signal.Signals[word])
            case "kill-parent":  # torchrun
                os.kill(os.getppid(), signal.Signals[word])
            case "segfault":
                ctypes.string_at(0)
            case "raise":
                raise RuntimeError("injected: the gate of layer 3 has no tokens")
            case "out-of-memory":
                held = []
                while True:
                    held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
            case "device-assert":
                index = torch.full((1,), 1000, device="cuda")
                torch.zeros(1, device="cuda")[index].sum().item()
            case "sleep":
                time.sleep(float(word))
            case "skip-collective":
                # one collective more than the others: all later ones have other partners
                dist.all_reduce(torch.zeros(1, device="cuda"))
            case "lock-interpreter":  # ctypes.PyDLL keeps the GIL
                ctypes.PyDLL(None).sleep(HANG_SECONDS)
            case "not-finite":
                with torch.no_grad():
                    for model in self.trainer.unwrapped_models:
                        next(model.parameters()).fill_(float("nan"))
            case other:
                raise ValueError(f"fault.json: do {other!r} is not known")


megatron_callbacks_map["fault"] = FaultCallback
