"""Loaded after ``swift_reference_probe``: the log, what the experts got, and an early end.

``PROBE`` names the folder. ``probe-<rank>.jsonl`` gets what is logged of each step, and
``experts-<rank>.json`` how many rows this rank's experts should get, were given and worked on, over
all layers and steps. With the last step's log the run is over: nothing is saved.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.transformer.moe.moe_layer import MoELayer
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map


class ProbeCallback(MegatronCallback):  # type: ignore[misc]
    """Counts and writes."""

    def on_train_begin(self) -> None:
        """Watch the policy's routers and experts; a reference is another model."""
        self.wanted = self.computed = 0
        self.chosen = torch.zeros((), dtype=torch.int64, device=torch.cuda.current_device())
        for module in (each for model in self.trainer.unwrapped_models for each in model.modules()):
            if isinstance(module, MoELayer):
                module.router.register_forward_hook(self.routed)
                module.experts.register_forward_pre_hook(self.worked)

    def routed(self, router: Any, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Count a router's tokens where gradients are recorded: each microbatch once."""
        if torch.is_grad_enabled():
            self.wanted += given[0].shape[0] * given[0].shape[1] * router.topk
            self.chosen += made[1].sum()

    def worked(self, _: Any, given: tuple[Any, ...]) -> None:
        """Count the rows that reach the experts."""
        if torch.is_grad_enabled():
            self.computed += given[0].shape[0]

    def on_log(self, logs: dict[str, Any]) -> None:
        """Write a step; end this rank with the last one."""
        folder, rank = Path(os.environ["PROBE"]), dist.get_rank()
        numbers = {name: value for name, value in logs.items() if isinstance(value, int | float)}
        with (folder / f"probe-{rank}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"step": self.state.iteration, **numbers}) + "\n")
        if self.state.iteration < self.args.train_iters:
            return
        counts = {"wanted": self.wanted, "chosen": int(self.chosen), "computed": self.computed}
        (folder / f"experts-{rank}.json").write_text(json.dumps(counts), encoding="utf-8")
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)


megatron_callbacks_map["probe"] = ProbeCallback
