"""megatron-core and mcore-bridge on CPU, for ``*_edge.py``: a GPU's streams stand still.

What stands in is what a CPU lacks (``launchers/proof/on_cpu.py``). Model, experts, dispatcher,
schedule and gradients' buffers are megatron-core's and mcore-bridge's own.
"""

import importlib
from typing import Any

import torch

from launchers.proof import on_cpu
from launchers.proof.on_cpu import enter, name_types_as_on_gpu
from launchers.stop import finished

__all__ = ["build", "enter", "join", "name_types_as_on_gpu"]

LAYERS, EXPERTS, HIDDEN, WORDS = 3, 8, 32, 128
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


class Attention(on_cpu.Attention):
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


def build(**changes: Any) -> Any:
    """Return mcore-bridge's model of a few small layers, or this rank's stage of it.

    The weights are the same at each call; ``changes`` are of ``SIZES``.
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
    # as mcore-bridge's ModelLoader does
    vars(models)["TransformerBlock"] = modules.TransformerBlock
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
