"""megatron-core and ms-swift's Megatron trainer on CPU: what only a GPU has is stood in for.

These are streams and events, which wait for nothing, Transformer Engine's layers, attention over
the texts of a pack, and means over ranks. All else is upstream's own.
"""

import contextlib
import importlib
import sys
import types
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

CLASSES = ("TEGroupedLinear", "TELayerNormColumnParallelLinear", "TELinear", "TEFusedMLP", "TENorm")
FUSED = (
    "persist_layer_norm gradient_accumulation_fusion bias_activation_fusion bias_dropout_fusion "
    "masked_softmax_fusion moe_permute_fusion apply_rope_fusion cross_entropy_loss_fusion"
)
"""Options of a model's configuration that need kernels of a GPU."""
KERNELS = ("transformer_engine", "transformer_engine_torch", "apex", "flash_attn", "deep_ep")
"""Packages whose kernels need a GPU."""


class _Still:
    device, cuda_stream, priority = "cpu", 0, 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: _Still()


class OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Makes on the CPU what is asked for on a GPU."""

    def __torch_function__(self, call: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call with the CPU in place of a GPU."""
        given = {k: _cpu(v) if k == "device" else v for k, v in (kwargs or {}).items()}
        given.pop("pin_memory", None)
        made = call(*map(_cpu, args), **given)
        if call is torch.empty:  # else saves differ in padding
            made.detach().zero_()
        return made


def _cpu(given: Any) -> Any:
    is_device = isinstance(given, str | torch.device) and str(given).startswith("cuda")
    return "cpu" if is_device else given


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention within each text of a pack."""

    def __init__(self, config: Any = None, layer_number: int = 0, **_: Any) -> None:
        """Make it as megatron-core makes a core of attention."""
        super().__init__()

    def forward(self, q: Any, k: Any, v: Any, *_: Any, packed_seq_params: Any, **__: Any) -> Any:
        """Return the attention of the texts whose bounds are given."""
        return self.whole(q, k, v, packed_seq_params.cu_seqlens_q.tolist())

    def whole(self, q: Any, k: Any, v: Any, bounds: list[int]) -> Any:
        """Return the attention of all texts."""
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        found = []
        for a, b in zip(bounds[:-1], bounds[1:], strict=True):
            parts = [t[a:b].transpose(0, 1)[None] for t in (q, k, v)]
            seen = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            found.append(seen[0].transpose(0, 1).reshape(b - a, -1))
        return torch.cat(found)


def enter() -> None:
    """Put the stand-ins in their places; before this nothing of Megatron may be imported."""
    cuda: Any = torch.cuda
    cuda.Stream = cuda.Event = _Still
    cuda.current_stream = lambda *_: _Still()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.current_device = lambda: torch.device("cpu")
    tensor: Any = torch.Tensor
    tensor.record_stream, tensor.cuda = (lambda *_: None), (lambda self, *_, **__: self)
    OnCpu().__enter__()
    vars(sys)["modules"].update(dict.fromkeys(KERNELS))  # not to be imported, where installed
    importlib.import_module("peft.tuners.lora")  # looks for the real Transformer Engine
    engine = importlib.import_module("megatron.core.extensions.transformer_engine")
    for name in ("", ".pytorch", ".pytorch.attention", ".pytorch.utils"):
        module: Any = types.ModuleType(f"transformer_engine{name}")
        module.__path__, module.__version__ = [], "2.12.0"
        module.__getattr__ = _anything
        sys.modules[module.__name__] = module
    for name in CLASSES:
        if getattr(engine, name, None) is None:
            setattr(engine, name, type(name, (torch.nn.Module,), {}))
    importlib.import_module("mcore_bridge.model")
    for name, found in list(sys.modules.items()):
        is_theirs = name.startswith(("megatron.", "mcore_bridge."))
        for key, value in list(vars(found).items()) if is_theirs else ():
            if key.startswith("TE") and not isinstance(value, type | types.ModuleType):
                setattr(found, key, type(key, (torch.nn.Module,), {}))
    nothing: Any = lambda *_, **__: contextlib.nullcontext()  # noqa: E731
    states: dict[str, Any] = {"is_initialized": lambda: True, "get_states": dict}
    states |= dict.fromkeys(("fork", "add", "reset", "set_states"), nothing)
    tracker = types.SimpleNamespace(**states)
    _set("megatron.core.tensor_parallel.random", "_CUDA_RNG_STATE_TRACKER", tracker)
    _set("megatron.core.transformer.moe.moe_utils", "te_general_gemm", None)
    _convert_splits(importlib.import_module("megatron.core.transformer.moe.token_dispatcher"))


def _set(module: str, name: str, value: Any) -> None:
    vars(importlib.import_module(module))[name] = value


def name_types_as_on_gpu() -> None:
    """Give tensors the type names of a GPU's, by which the distributed optimizer knows them."""
    tensor: Any = torch.Tensor
    kind = tensor.type
    tensor.type = lambda self, *given: (
        kind(self, *given) if given else f"torch.cuda.{kind(self).rpartition('.')[2]}"
    )


def _anything(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {}) if name.startswith("Float8Block") else MagicMock(name=name)


def _convert_splits(dispatcher: Any) -> None:
    """Hand over sizes as numbers: megatron-core makes them such on their way from the GPU."""
    inner = dispatcher.all_to_all

    def all_to_all(group: Any, rows: Any, out: Any = None, into: Any = None, **kw: Any) -> Any:
        sizes = [None if s is None else [int(each) for each in s] for s in (out, into)]
        return inner(group, rows, *sizes, **kw)

    dispatcher.all_to_all = all_to_all


def train_in_fp32() -> None:
    """Let ms-swift build, wrap and save a model of fp32 on CPU, as its trainer does on GPUs."""
    enter()
    name_types_as_on_gpu()
    cuda: Any = torch.cuda
    cuda.synchronize = cuda.set_rng_state = lambda *_: None
    cuda.get_rng_state = lambda *_: torch.get_rng_state()
    inner, ops = dist.all_reduce, dist.ReduceOp

    def all_reduce(t: Any, op: Any = ops.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != ops.AVG:
            return inner(t, op, group, async_op)
        inner(t, ops.SUM, group)
        t.div_(dist.get_world_size(group))
        return None

    dist.all_reduce = all_reduce
    _set("swift.megatron.trainers.utils", "get_current_device", lambda: torch.device("cpu"))
    loader = importlib.import_module("mcore_bridge.model.register").ModelLoader
    loader.get_transformer_layer_spec = lambda self, vp_stage=None: _layers(self.config, _normed())
    bridge = importlib.import_module("mcore_bridge.bridge.gpt_bridge").GPTBridge
    load = bridge.load_weights

    def load_weights(self: Any, models: Any, *given: Any, **named: Any) -> Any:
        # weights of experts are only read into Transformer Engine's layers
        has_experts = bool(models[0].config.num_moe_experts)
        return None if has_experts else load(self, models, *given, **named)

    bridge.load_weights = load_weights
    lm = "swift.megatron.utils.megatron_lm_utils"
    _set(lm, "DDP", _wrapped(importlib.import_module(lm)))
    _set("swift.megatron.trainers.base", "warmup_jit_function", lambda *_: None)


def _layers(config: Any, normed: Any) -> Any:
    """Return megatron-core's own layers, with the names of the weights of Transformer Engine's."""
    vars(config).update(dict.fromkeys(FUSED.split(), False))
    core = "megatron.core.transformer"
    nothing = importlib.import_module(f"{core}.identity_op").IdentityOp
    specs = importlib.import_module("megatron.core.models.gpt.gpt_layer_specs")
    spec = specs.get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts,
        moe_grouped_gemm=False,
        qk_layernorm=config.qk_layernorm,
        normalization="RMSNorm",
    )
    spec.module = importlib.import_module("mcore_bridge.model.modules").TransformerLayer
    spec.submodules.input_layernorm = nothing
    attention = spec.submodules.self_attention.submodules
    attention.linear_qkv, attention.core_attention = normed, Attention
    if not config.num_moe_experts:
        spec.submodules.pre_mlp_layernorm = nothing
        mlp = spec.submodules.mlp  # a partial since megatron-core 0.18
        of = mlp.keywords["submodules"] if hasattr(mlp, "keywords") else mlp.submodules
        of.linear_fc1 = normed
    return importlib.import_module(f"{core}.transformer_block").TransformerBlockSubmodules(
        layer_specs=[spec] * config.num_layers,
        layer_norm=importlib.import_module(f"{core}.torch_norm").WrappedTorchNorm,
    )


def _normed() -> Any:
    """Return a stand-in of Transformer Engine's product of a norm."""
    parallel = importlib.import_module("megatron.core.tensor_parallel.layers")
    made = importlib.import_module("megatron.core.transformer.utils")

    class Normed(parallel.ColumnParallelLinear):  # type: ignore[misc, name-defined]
        def __init__(self, size: int, *given: Any, config: Any, **named: Any) -> None:
            super().__init__(size, *given, config=config, **named)
            ones = torch.ones(size, dtype=config.params_dtype)
            self.layer_norm_weight, self.eps = torch.nn.Parameter(ones), config.layernorm_epsilon

        def forward(self, x: Any, *given: Any, **named: Any) -> Any:
            x = torch.nn.functional.rms_norm(x, x.shape[-1:], self.layer_norm_weight, self.eps)
            return super().forward(x, *given, **named)

        def sharded_state_dict(
            self, prefix: str = "", sharded_offsets: Any = (), metadata: Any = None
        ) -> Any:
            state = {k: v for k, v in self.state_dict(keep_vars=True).items() if "_extra" not in k}
            splits = {"weight": 0}
            return made.make_sharded_tensors_for_checkpoint(state, prefix, splits, sharded_offsets)

    return Normed


def _wrapped(lm: Any) -> Any:
    """Return DDP around a module as deep as with half precision, where upstream looks for it."""
    half = lm.Float16Module

    class Whole(half):  # type: ignore[misc, valid-type]
        def __init__(self, config: Any, module: Any) -> None:
            torch.nn.Module.__init__(self)
            self.config, self.module = config, module
            self.vp_size = self.vp_stage = self.pg_collection = None

        def forward(self, *given: Any, fp32_output: bool = True, **named: Any) -> Any:
            return self.module(*given, **named)

    class Wrapped(lm.DDP):  # type: ignore[misc]
        def __init__(self, *, config: Any, module: Any, **named: Any) -> None:
            super().__init__(config=config, module=Whole(config, module), **named)

    return Wrapped
