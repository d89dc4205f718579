"""ms-swift's and megatron-core's own checks on a CPU: a JSON question a line in, an answer out.

Run in the training environment, with megatron-core and mcore-bridge of requirements.txt on its
path. Nothing of them is copied: their argument classes, configurations and layer counts are called.
What stands in is what a CPU lacks, and is asked for nothing that judges: transformer_engine is
empty classes, torch.distributed a world of the asked size without groups.
"""

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

REFUSALS = (ValueError, AssertionError, RuntimeError, NotImplementedError, ZeroDivisionError)
"""Exceptions of their checks; any other is an error of this program."""


class _FusedAdam:
    """Has the arguments that OptimizerConfig looks for in Transformer Engine's (2.1 and later)."""

    def __init__(
        self,
        *,
        master_weight_dtype: object = None,
        exp_avg_dtype: object = None,
        exp_avg_sq_dtype: object = None,
        use_decoupled_grad: bool = False,
        store_param_remainders: bool = False,
    ) -> None:
        """Do nothing."""


class _Empty(types.ModuleType):
    """A module of which every capital name is an empty class, and every other one a module."""

    __version__ = "2.8.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import torch

        made: Any = _FusedAdam if name == "FusedAdam" else type(name, (torch.nn.Module,), {})
        if name.islower():
            made = importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        wanted = name.partition(".")[0] in ("transformer_engine", "transformer_engine_torch")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, _: types.ModuleType) -> None:
        pass


class _Group:
    """A process group that only knows its size."""

    def __init__(self, size: int = 1) -> None:
        self._size = size

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return 0


class World:
    """Stands for torch.distributed: rank 0 of a world of any size."""

    size = 1

    def install(self) -> None:
        import torch.distributed as dist

        stand_in: dict[str, Callable[..., Any]] = {
            "is_initialized": lambda: True,
            "get_world_size": lambda group=None: self.size if group is None else group.size(),
            "get_rank": lambda group=None: 0,
            "new_group": lambda ranks=None, *_, **__: _Group(len(ranks or [])),
            "init_process_group": lambda *_, **__: None,
            "barrier": lambda *_, **__: None,
        }
        for name, act in stand_in.items():
            setattr(dist, name, act)


@lru_cache(maxsize=256)
def folder_of(config: str) -> str:
    """Write a model's config.json, once per config."""
    name = hashlib.sha256(config.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"differential-{os.getpid()}" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config, encoding="utf-8")
    return str(folder)


class Oracle:
    def __init__(self) -> None:
        """Import ms-swift and megatron-core, and leave out what needs a GPU."""
        sys.meta_path.insert(0, _Finder())
        self.world = World()
        self.world.install()
        from megatron.core import mpu
        from swift.megatron.arguments import MegatronRLHFArguments, megatron_args
        from swift.megatron.utils import megatron_lm_utils
        from swift.utils import parse_args

        # Seeds of CUDA and a tensor on the GPU: initialize_megatron does nothing else.
        megatron_args.initialize_megatron = megatron_lm_utils._initialize_mpu
        self._mpu = mpu
        self._arguments, self._parse = MegatronRLHFArguments, parse_args

    def judge(self, question: Mapping[str, Any]) -> str:
        """Return why their code refuses; empty if it does not."""
        self.world.size = question["world"]
        self._mpu.destroy_model_parallel()
        folder = folder_of(json.dumps(question["config"], sort_keys=True))
        try:
            self._judge(folder, [str(word) for word in question["argv"]])
        except REFUSALS as error:
            return f"{type(error).__name__}: {error}"
        except SystemExit as error:
            return f"argparse: exit {error.code}"
        return ""

    def _judge(self, folder: str, argv: list[str]) -> None:
        from swift.megatron.model.utils import get_mcore_model_config
        from transformers import AutoConfig

        args, left = self._parse(self._arguments, ["--model", folder, *argv])
        if left:
            raise ValueError(f"remaining_argv: {left}")
        config = get_mcore_model_config(args, AutoConfig.from_pretrained(folder))
        for check in (_layers, _widths, _experts, _microbatches, _optimizer):
            check(args, config)


def _layers(args: Any, config: Any) -> None:
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    chunks = config.virtual_pipeline_model_parallel_size
    for stage in range(args.pipeline_model_parallel_size):
        for chunk in [None] if chunks is None else range(chunks):
            get_num_layers_to_build(config, vp_stage=chunk, pp_rank=stage)


def _widths(args: Any, config: Any) -> None:
    """Split a dense layer's width as ``mlp.py`` does: ColumnParallelLinear divides."""
    from megatron.core.utils import divide

    if config.num_moe_experts is None:
        divide(config.ffn_hidden_size, args.tensor_model_parallel_size)


def _experts(args: Any, config: Any) -> None:
    """Call the constructor and the first lines of a forward pass of the layer of experts."""
    from megatron.core.transformer.moe.moe_layer import BaseMoELayer, MoELayer
    from megatron.core.utils import divide

    if config.num_moe_experts is None:
        return
    tensor = _Group(args.tensor_model_parallel_size)
    groups = types.SimpleNamespace(ep=_Group(config.expert_model_parallel_size), tp=tensor)
    layer = type("Layer", (BaseMoELayer,), {"forward": lambda self, hidden: hidden})
    layer(config, 1, groups)
    divide(config.moe_ffn_hidden_size, config.expert_tensor_parallel_size)
    asked = types.SimpleNamespace(training=True, attn_tp_group=tensor, config=config)
    with contextlib.suppress(AttributeError, TypeError):  # past its check, where it computes
        MoELayer.forward(asked, None)


class _Passed(Exception):
    """Their code came past its checks, to where it communicates."""


class _Link:
    """Stands for the communication between stages."""

    def __init__(self, config: Any, stages: int) -> None:
        self.config, self.pp_group = config, _Group(stages)

    def __getattr__(self, _: str) -> Any:
        raise _Passed


class _OnCpu:
    """PyTorch whose new tensors are on the CPU, regardless of the requested device."""

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch, name)

    @staticmethod
    def zeros(*sizes: Any, **_: Any) -> Any:
        import torch

        return torch.zeros(*sizes)


def _microbatches(args: Any, config: Any) -> None:
    """Call the interleaved schedule up to its first communication."""
    import torch
    from megatron.core.enums import ModelType
    from megatron.core.pipeline_parallel import schedules

    count = config.virtual_pipeline_model_parallel_size
    if count is None:
        return
    chunk = torch.nn.Linear(1, 1)
    chunk.config, chunk.model_type = config, ModelType.encoder_or_decoder
    stages = _Group(args.pipeline_model_parallel_size)
    one = dict.fromkeys(("tp", "cp", "embd", "pos_embd", "dp_cp"), _Group())
    schedules.torch = _OnCpu()
    with contextlib.suppress(_Passed):
        schedules.forward_backward_pipelining_with_interleaving(
            forward_step_func=None,
            data_iterator=[None] * count,
            model=[chunk] * count,
            num_microbatches=args.num_microbatches,
            seq_length=8,
            micro_batch_size=1,
            forward_only=False,
            p2p_communicator=_Link(config, stages.size()),
            pg_collection=types.SimpleNamespace(pp=stages, **one),
        )


def _optimizer(args: Any, _: Any) -> None:
    """Make the configuration as ms-swift's trainer does (``get_optimizer_and_scheduler``)."""
    from dataclasses import fields

    from megatron.core.optimizer import AdamOptimizerConfig, SGDOptimizerConfig

    kind = SGDOptimizerConfig if args.optimizer == "sgd" else AdamOptimizerConfig
    names = {field.name for field in fields(kind)} - {"loss_scale"}
    kind(**{name: value for name, value in vars(args).items() if name in names})


def main() -> None:
    """Answer until there is no more question; what they print is thrown away."""
    warnings.simplefilter("ignore")
    questions, answers = sys.stdin, sys.stdout
    sys.stdout = sys.stderr = io.StringIO()
    oracle = Oracle()
    answers.write(json.dumps({"ready": _versions()}) + "\n")
    answers.flush()
    for line in questions:
        refused = oracle.judge(json.loads(line))
        answers.write(json.dumps({"refused": refused}) + "\n")
        answers.flush()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("ms-swift", "megatron-core", "mcore-bridge")}


if __name__ == "__main__":
    main()
