"""Loaded into ms-swift's Megatron trainer: writes a row for each step of this rank, as it goes.

``PROBE`` names the folder: the first line of ``rank-<N>.jsonl`` says who this is and which of the
launcher's modules are loaded (this file imports none). Each further one is a step: seconds since
the end of the step before, real tokens and their squared lengths of this rank's own data, peaks of
memory in bytes. Tokens are counted on the CPU, in what the collator hands over. The bench's process
is ``PROBE_PARENT``: when it is gone, this rank ends, so that a killed visit leaves nothing on the
GPUs.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

IMPORTED = time.time()


def _follow(parent: int) -> None:
    while Path(f"/proc/{parent}").exists():
        time.sleep(2)
    os._exit(1)


class ProbeCallback(MegatronCallback):  # type: ignore[misc]
    def on_train_begin(self) -> None:
        """Begin the file, and count what the trainer reads from now on."""
        self.tokens = self.squares = self.sequences = 0
        inner, model = self.trainer._prepare_batch, self.trainer.unwrapped_models[0]

        def prepare(data: dict[str, Any], vp_stage: int | None = None) -> Any:
            if not vp_stage and model.training:  # not the pairs by which an export is compared
                self.count(data)
            return inner(data, vp_stage)

        self.trainer._prepare_batch = prepare
        self.path = Path(os.environ["PROBE"]) / f"rank-{dist.get_rank()}.jsonl"
        self.write(
            rank=dist.get_rank(),
            world=dist.get_world_size(),
            tp=mpu.get_tensor_model_parallel_rank(),
            pp=mpu.get_pipeline_model_parallel_rank(),
            cp=mpu.get_context_parallel_rank(),
            dp=mpu.get_data_parallel_rank(),
            imported=IMPORTED,
            loaded=time.time(),
            before_training=torch.cuda.memory_allocated(),
            launchers=sorted(name for name in sys.modules if name.startswith("launchers")),
        )
        self.begun = time.monotonic()

    def count(self, data: dict[str, Any]) -> None:
        """Add a microbatch's real tokens; without packs the mask says which are real."""
        lengths = data.get("seq_lens")
        if lengths is None:
            mask = data.get("attention_mask_2d")
            lengths = [] if mask is None else mask.sum(-1).tolist()
        self.sequences += len(lengths)
        self.tokens += sum(map(int, lengths))
        self.squares += sum(int(each) ** 2 for each in lengths)
        # tokens of prompts that only the chosen text computes (recipe.promptOnce)
        shared = data.get("shared_tokens", ())
        last = list(lengths)[len(lengths) - len(shared) :]
        self.squares += sum(2 * n * more for n, more in zip(last, shared, strict=True))

    def on_step_begin(self) -> None:
        """Forget what was read outside a step."""
        self.tokens = self.squares = self.sequences = 0

    def on_step_end(self) -> None:
        """Write what was seen of this step: a run that dies later has left its steps."""
        torch.cuda.synchronize()
        now = time.monotonic()
        self.write(
            step=self.state.iteration,
            time=time.time(),
            seconds=round(now - self.begun, 5),
            tokens=self.tokens,
            squares=self.squares,
            sequences=self.sequences,
            allocated=torch.cuda.max_memory_allocated(),
            reserved=torch.cuda.max_memory_reserved(),
        )
        self.begun = now

    def write(self, **row: Any) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


megatron_callbacks_map["bench_probe"] = ProbeCallback
if parent := os.environ.get("PROBE_PARENT"):
    threading.Thread(target=_follow, args=(int(parent),), daemon=True).start()
