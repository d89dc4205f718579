"""Loaded into ms-swift's Megatron trainer: injects the faults that ``faults.json`` lists.

``launcher/matrix.py`` writes it to the folder ``fault`` of the workspace. Each fault happens once,
in the order of the list, on one rank: at the begin of a step, at the begin of the evaluation after
one, or after a save and before its seal.
Its time, attempt and the first step that it may prevent are written to ``<name>.note`` there.
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
    def on_train_begin(self) -> None:
        self.folder = Path(os.environ["DPO_RUN_FOLDER"]).parents[1] / "fault"
        self.planned: list[dict[str, Any]] = json.loads((self.folder / "faults.json").read_text())

    def on_step_begin(self) -> None:
        """Inject a fault of a step; ``iteration`` counts the completed ones."""
        self.inject("step", self.state.iteration + 1)

    def on_eval_begin(self) -> None:
        """Inject a fault of an evaluation, which follows a completed step."""
        self.inject("evaluation", self.state.iteration)

    def on_save(self, output_dir: str) -> None:
        """Inject a fault of a save: the checkpoint is not sealed."""
        self.inject("save", self.state.iteration)

    def inject(self, at: str, step: int) -> None:
        """Inject the first fault that has no note yet, if its rank and its time have come."""
        for fault in self.planned:
            note = self.folder / f"{fault['name']}.note"
            if note.exists():
                continue
            if (fault["rank"], fault["at"], fault["step"]) == (dist.get_rank(), at, step):
                time.sleep(fault.get("settle", 0.0))
                attempt = int(Path(os.environ["DPO_ATTEMPT_FOLDER"]).name)
                about = {"time": time.time(), "attempt": attempt, "step": step + (at != "step")}
                note.write_text(json.dumps({**about, "rank": fault["rank"]}))
                self.do(fault)
            return

    def do(self, fault: dict[str, Any]) -> None:
        word = str(fault.get("word", ""))
        match fault["do"]:
            case "kill":
                os.kill(os.getpid(), signal.Signals[word])
            case "kill-parent":  # torchrun
                os.kill(os.getppid(), signal.Signals[word])
            case "terminate-pod":  # SIGTERM as the kubelet sends it: to torchrun's parent
                stat = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2]
                os.kill(int(stat.split()[1]), signal.SIGTERM)
            case "exit":
                os._exit(int(word))
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
            case "lock-interpreter":  # ctypes.PyDLL keeps the GIL; a signal ends one sleep
                end = time.monotonic() + HANG_SECONDS
                while time.monotonic() < end:
                    ctypes.PyDLL(None).sleep(HANG_SECONDS)
            case "block":  # storage that does not answer: nobody writes to the pipe
                pipe = self.folder / "blocked"
                os.mkfifo(pipe)
                pipe.open("rb").close()
            case "not-finite":
                with torch.no_grad():
                    for model in self.trainer.unwrapped_models:
                        next(model.parameters()).fill_(float("nan"))
            case other:
                raise ValueError(f"faults.json: do {other!r} is not known")


megatron_callbacks_map["fault"] = FaultCallback
