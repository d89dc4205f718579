"""The real callback of ``swift_trace.py``, with torch on CPU and a stub of ms-swift's trainer.

``python -m tests.bench.speed.fake_trainer STEPS``, with the plugin's variables, prints in which
steps a profiler ran.
"""

import importlib
import json
import sys
import types
from types import SimpleNamespace
from typing import Any

import torch


class Callback:
    """``swift/megatron/callbacks/base.py``."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.state = trainer, trainer.state


def main() -> None:
    callbacks: dict[str, Any] = {}
    members: dict[str, dict[str, Any]] = {
        "base": {"MegatronCallback": Callback},
        "mapping": {"megatron_callbacks_map": callbacks},
    }
    for name in ("swift", "swift.megatron", "swift.megatron.callbacks"):
        sys.modules[name] = types.ModuleType(name)
    for name, given in members.items():
        module = sys.modules[f"swift.megatron.callbacks.{name}"] = types.ModuleType(name)
        vars(module).update(given)
    torch.cuda.synchronize = lambda *_: None
    torch.distributed.get_rank = lambda *_: 0
    # a torch without CUDA has no profiler of its kernels alone
    whole, kinds = torch.profiler.profile, torch.profiler.ProfilerActivity
    torch.profiler.profile = lambda activities: whole(activities={*activities, kinds.CPU})
    importlib.import_module("tests.bench.plugins.swift_trace")
    state, weights = SimpleNamespace(iteration=0), torch.nn.Linear(4, 4)
    callback = callbacks["trace"](SimpleNamespace(state=state))
    callback.on_train_begin()
    profiled = []
    for step in range(1, int(sys.argv[1]) + 1):
        callback.on_step_begin()
        profiled += [step] if callback.profiler is not None else []
        weights(torch.randn(2, 4)).sum().backward()
        state.iteration += 1
        callback.on_step_end()
    print(json.dumps(profiled))


if __name__ == "__main__":
    main()
