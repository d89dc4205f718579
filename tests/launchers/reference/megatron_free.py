"""ms-swift's Megatron trainers without megatron-core: empty stand-ins for what is missing here.

For scripts that the training Python runs on CPU; ``enter`` must come before ms-swift.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

CALLS: list[str] = []
EMPTY = ("megatron", "mcore_bridge", "transformer_engine")
PARTS = ("swift.megatron.utils", "swift.megatron.model", "swift.megatron.callbacks")


class Empty(types.ModuleType):
    """A module in which every name is something."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in PARTS or name.partition(".")[0] in EMPTY:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module: Any = Empty(spec.name)
        module.__version__ = "0.18.0"
        vars(module).update(GIVEN.get(spec.name, {}))
        return module

    def exec_module(self, module: Any) -> None:
        return None


def schedule(*, forward_step_func: Any, data_iterator: Any, model: Any, **given: Any) -> list[Any]:
    """Run micro-batches forward, as ``forward_backward_no_pipelining`` does."""
    found = []
    for _ in range(given["num_microbatches"]):
        output, loss_func = forward_step_func(data_iterator, model[0])
        loss, kept = loss_func(output)
        loss *= 1
        loss /= given["num_microbatches"]
        found.append(kept)
    return found


def packed_params(args: Any, position_ids: Any) -> Any:
    from swift.utils.transformers_utils import get_packed_seq_params

    return SimpleNamespace(cu_seqlens_q=get_packed_seq_params(position_ids)["cu_seq_lens_q"])


def wrapped_model_with(model: Any, name: str, return_model_obj: bool) -> Any:
    """Return the innermost model, as ``get_attr_wrapped_model`` does."""
    while hasattr(model, "module"):
        model = model.module
    assert return_model_obj and hasattr(model, name)
    return model


MPU = SimpleNamespace(
    get_context_parallel_world_size=lambda: 1,
    get_tensor_model_parallel_rank=lambda: 0,
    get_data_parallel_rank=lambda: 0,
    get_data_parallel_world_size=lambda: 1,
    is_pipeline_last_stage=lambda: True,
)
GIVEN: dict[str, dict[str, Any]] = {
    "megatron.core": {"mpu": MPU},
    "megatron.core.utils": {"get_attr_wrapped_model": wrapped_model_with},
    "megatron.core.pipeline_parallel": {"get_forward_backward_func": lambda: schedule},
    "swift.megatron.utils": {
        "get_batch_on_this_cp_rank": lambda _, batch: batch,
        "get_packed_seq_params": packed_params,
        "should_disable_forward_pre_hook": lambda _: True,
        "disable_forward_pre_hook": lambda *_, **given: CALLS.append(f"off {given}"),
        "enable_forward_pre_hook": lambda *_: CALLS.append("on"),
    },
}


def enter() -> None:
    """Put the stand-ins in the place of what is missing."""
    sys.meta_path.insert(0, Finder())
    import swift

    folder = types.ModuleType("swift.megatron")  # without what its __init__ does to megatron-core
    folder.__path__ = [str(Path(str(swift.__file__)).parent / "megatron")]
    sys.modules["swift.megatron"] = folder
