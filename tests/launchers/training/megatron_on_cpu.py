"""megatron-core and mcore-bridge on CPU, for ``*_edge.py``: a GPU's streams stand still.

What stands in is what a CPU lacks: streams and events that wait for nothing, empty classes for
Transformer Engine's, and attention over the texts of a pack. Model, experts, dispatcher, schedule
and gradients' buffers are megatron-core's and mcore-bridge's own.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from typing import Any
from unittest.mock import MagicMock

import torch
from torch.overrides import TorchFunctionMode

from launchers.stop import finished

LAYERS, EXPERTS, HIDDEN, WORDS = 3, 8, 32, 128
CLASSES = ("TEGroupedLinear", "TELayerNormColumnParallelLinear", "TELinear", "TEFusedMLP", "TENorm")
SIZES: dict[str, Any] = {
    "num_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": 4,
    "kv_channels": 8,
    "num_query_groups": 2,
    "ffn_hidden_size": 64,
    "moe_ffn_hidden_size": 16,
    "num_moe_experts": EXPERTS,
    "moe_router_topk": 2,
    "padded_vocab_size": WORDS,
    "max_position_embeddings": 512,
    "normalization": "RMSNorm",
    "swiglu": True,
    "qk_layernorm": True,
    "add_bias_linear": False,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "moe_token_dispatcher_type": "alltoall",
    "moe_router_load_balancing_type": "aux_loss",
    "moe_aux_loss_coeff": 1e-2,
    "moe_grouped_gemm": False,
    "apply_rope_fusion": False,
    "moe_permute_fusion": False,
    "bf16": True,
    "params_dtype": torch.bfloat16,
    "mcore_model_type": "gpt",
    "hf_model_type": "qwen3_moe",
    "gradient_accumulation_fusion": False,
    "bias_activation_fusion": False,
    "bias_dropout_fusion": False,
    "persist_layer_norm": False,
    "masked_softmax_fusion": False,
    "variable_seq_lengths": True,
    "untie_embeddings_and_output_weights": True,
    "use_cpu_initialization": True,
    "cross_entropy_loss_fusion": False,
    "recompute_granularity": None,
    "perform_initialization": True,
    "expert_model_parallel_size": 2,
}
"""Configuration of a model like Qwen3-MoE."""


class Still:
    """A stream or an event."""

    device, cuda_stream, priority = "cpu", 0, 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: Still()


class OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Makes on the CPU what is asked for on a GPU."""

    def __torch_function__(self, call: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if "cuda" in str(given.get("device")):
            given["device"] = "cpu"
        given.pop("pin_memory", None)
        return call(*args, **given)


class Random:
    """Stands for the tracker of random states: nothing here draws."""

    def fork(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    def is_initialized(self) -> bool:
        return True


class Gathered(torch.autograd.Function):  # type: ignore[misc]
    """The parts of all ranks of a group, [ranks, ...]; the gradient is the sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, part: Any, group: Any) -> Any:
        ctx.group = group
        parts = [torch.empty_like(part) for _ in range(group.size())]
        torch.distributed.all_gather(parts, part.contiguous(), group=group)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        whole = gradient.contiguous()
        torch.distributed.all_reduce(whole, group=ctx.group)
        return whole[ctx.group.rank()], None


def zigzag(bounds: list[int], rank: int, ranks: int) -> list[int]:
    """Return the tokens of a pack that a rank of context parallelism has.

    Of the 2 x ranks equal chunks of a text a rank has the one of its number, counted from the front
    and from the back (``mcore_bridge/utils/megatron_utils.py: split_cp_inputs``).
    """
    found: list[int] = []
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        size = (b - a) // (2 * ranks)
        for chunk in (rank, 2 * ranks - 1 - rank):
            found += range(a + chunk * size, a + (chunk + 1) * size)
    return found


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention within each text of a pack, of which each rank of the group has a part."""

    def __init__(self, config: Any = None, layer_number: int = 0, **_: Any) -> None:
        super().__init__()
        self.ranks = getattr(config, "context_parallel_size", 1)

    def forward(self, q: Any, k: Any, v: Any, *_: Any, packed_seq_params: Any, **__: Any) -> Any:
        bounds = packed_seq_params.cu_seqlens_q.tolist()
        if self.ranks == 1:
            return self.whole(q, k, v, bounds)
        state = importlib.import_module("megatron.core.parallel_state")
        group = state.get_context_parallel_group()
        places = [zigzag(bounds, rank, self.ranks) for rank in range(self.ranks)]
        order = torch.tensor(sum(places, [])).argsort()
        q, k, v = (Gathered.apply(t, group).flatten(0, 1)[order] for t in (q, k, v))
        return self.whole(q, k, v, bounds)[places[group.rank()]]

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
    cuda.Stream = cuda.Event = Still
    cuda.current_stream = lambda *_: Still()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.current_device = lambda: torch.device("cpu")
    tensor: Any = torch.Tensor
    tensor.record_stream, tensor.cuda = (lambda *_: None), (lambda self, *_, **__: self)
    OnCpu().__enter__()
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
        for key, value in list(vars(found).items()) if name.startswith("megatron.") else ():
            if key.startswith("TE") and not isinstance(value, type | types.ModuleType):
                setattr(found, key, type(key, (torch.nn.Module,), {}))
    trackers = importlib.import_module("megatron.core.tensor_parallel.random")
    vars(trackers)["_CUDA_RNG_STATE_TRACKER"] = Random()
    vars(importlib.import_module("megatron.core.transformer.moe.moe_utils"))["te_general_gemm"] = (
        None
    )
    _convert_splits(importlib.import_module("megatron.core.transformer.moe.token_dispatcher"))


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
    return MagicMock(name=name)


def _convert_splits(dispatcher: Any) -> None:
    """Hand over sizes as numbers: megatron-core makes them such on their way from the GPU."""
    inner = dispatcher.all_to_all

    def all_to_all(group: Any, rows: Any, out: Any = None, into: Any = None, **kw: Any) -> Any:
        sizes = [None if s is None else [int(each) for each in s] for s in (out, into)]
        return inner(group, rows, *sizes, **kw)

    dispatcher.all_to_all = all_to_all


def build(**changes: Any) -> Any:
    """Return mcore-bridge's model of a few small layers, or this rank's stage of it.

    The weights are the same at each call.

    Args:
        changes: of ``SIZES``.
    """
    specs = importlib.import_module("megatron.core.models.gpt.gpt_layer_specs")
    blocks = importlib.import_module("megatron.core.transformer.transformer_block")
    norms = importlib.import_module("megatron.core.transformer.torch_norm")
    models = importlib.import_module("megatron.core.models.gpt.gpt_model")
    modules = importlib.import_module("mcore_bridge.model.modules")
    state = importlib.import_module("megatron.core.parallel_state")
    config = importlib.import_module("mcore_bridge.config").ModelConfig(**(SIZES | changes))
    spec = specs.get_gpt_layer_local_spec(
        num_experts=EXPERTS, moe_grouped_gemm=False, qk_layernorm=True, normalization="RMSNorm"
    )
    spec.module = modules.TransformerLayer
    spec.submodules.self_attention.submodules.core_attention = Attention
    block = blocks.TransformerBlockSubmodules(
        layer_specs=[spec] * (config.num_layers // config.pipeline_model_parallel_size),
        layer_norm=norms.WrappedTorchNorm,
    )
    vars(models)["TransformerBlock"] = (
        modules.TransformerBlock
    )  # as mcore-bridge's ModelLoader does
    torch.manual_seed(3)
    return importlib.import_module("mcore_bridge.model.gpt_model").GPTModel(
        config,
        block,
        pre_process=state.is_pipeline_first_stage(),
        post_process=state.is_pipeline_last_stage(),
    )


def join() -> None:
    """Enter, and join the other rank, which has the other half of the experts."""
    enter()
    finished.end_at_exit()
    torch.distributed.init_process_group("gloo")
    state = importlib.import_module("megatron.core.parallel_state")
    state.initialize_model_parallel(expert_model_parallel_size=2)
    batching = importlib.import_module("swift.megatron.trainers.utils")
    vars(batching)["get_current_device"] = lambda: torch.device("cpu")
