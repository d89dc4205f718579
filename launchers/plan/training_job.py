"""What memory and speed need of a recipe: its flags, with the defaults of ms-swift 4.4.1.

Defaults and their consequences are those of ``swift/megatron/arguments/megatron_args.py``; a test
compares them with the installed source.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from launchers.config.recipe import ADAPTERS, Recipe
from launchers.exits import Exit, LaunchError
from launchers.plan.arguments import Arguments
from launchers.plan.layout import Layout

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Flag value to bytes of an element."""
_NO_REFERENCE = ("rm", "gkd")
_DTYPES = ("fp32", "fp16", "bf16", "fp8")
_SIZES = {
    **{name: name for name in ("micro_batch_size", "global_batch_size", "lora_rank")},
    "recompute_num_layers": "recompute_num_layers",
    "max_length": "max_length",
    "packing_length": "packing_length",
}
_FLAGS = {
    **{name: name for name in ("packing", "overlap_grad_reduce", "overlap_param_gather")},
    "precision_aware": "use_precision_aware_optimizer",
    "distributed_optimizer": "use_distributed_optimizer",
    "cross_entropy_fusion": "cross_entropy_loss_fusion",
    "grouped_gemm": "moe_grouped_gemm",
    "permute_fusion": "moe_permute_fusion",
}
_CHOICES = {
    "optimizer": ("optimizer", ("adam", "sgd", "muon", "dist_muon")),
    "exp_avg_dtype": ("exp_avg_dtype", _DTYPES),
    "exp_avg_sq_dtype": ("exp_avg_sq_dtype", _DTYPES),
    "main_grads_dtype": ("main_grads_dtype", ("fp32", "bf16")),
    "main_params_dtype": ("main_params_dtype", ("fp32", "fp16")),
    "cross_entropy_impl": ("cross_entropy_fusion_impl", ("native", "te")),
    "dispatcher": ("moe_token_dispatcher_type", ("allgather", "alltoall", "flex")),
    "recompute": ("recompute_granularity", ("selective", "full", "none")),
    "recompute_method": ("recompute_method", ("", "uniform", "block")),
}
"""Field of ``Training`` to the flag it is read from."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training job. Defaults are ms-swift's."""

    layout: Layout
    micro_batch_size: int = 1
    global_batch_size: int = 16
    max_length: int = 0
    """Tokens of a row, of chosen and of rejected each; 0: the model's context length."""
    packing: bool = False
    packing_length: int = 0
    """Tokens of a pack; 0: ``max_length``."""
    longest: int = 0
    """Tokens of the longest microbatch of the data, where known; 0: the worst that flags allow."""
    pairs: bool = True
    """A sample is a chosen and a rejected row (DPO)."""
    reference: bool = True
    """A frozen copy of the model is loaded; with LoRA the policy without adapter serves."""
    compares: bool = True
    """Each microbatch is also run forward through the reference."""
    precomputed: bool = False
    """The reference's part is taken once before the first step (``recipe.reference``)."""
    head: bool = True
    """The model ends in logits over the vocabulary; reward and class models do not."""
    tuner: str = "full"
    lora_rank: int = 8
    lora_modules: tuple[str, ...] = ("all-linear",)
    merges: str = "last"
    """Checkpoints beside which an adapter is merged into a copy of the model: ``last`` of the run
    (``swift_merge_last``), ``every`` one, ``never``."""
    sequence_parallel: bool = False
    recompute: str = "selective"
    recompute_method: str = ""
    recompute_num_layers: int = 1
    recompute_modules: tuple[str, ...] = ("core_attn",)
    optimizer: str = "adam"
    distributed_optimizer: bool = True
    precision_aware: bool = False
    exp_avg_dtype: str = "fp32"
    exp_avg_sq_dtype: str = "fp32"
    main_grads_dtype: str = "fp32"
    main_params_dtype: str = "fp32"
    optimizer_offload: float = 0.0
    """Part of the optimizer in host memory: 0 to 1."""
    chunked_step: bool = True
    """The optimizer steps in chunks, which bounds the fp32 copies of bf16 moments."""
    attention_backend: str = "flash"
    cross_entropy_fusion: bool = True
    cross_entropy_impl: str = "native"
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    grouped_gemm: bool = True
    permute_fusion: bool = False
    dispatcher: str = "alltoall"
    capacity_factor: float = 0.0
    """Rows an expert takes, as a multiple of the balanced number; 0: all (dropless)."""
    overlap_a2a: bool = False
    """All-to-all runs beside other work; no flag of ms-swift does that for DPO."""
    imbalance: float = 0.0
    """Rows of the fullest rank's experts over the mean, where it is known (1: forced balance)."""
    saves_optimizer: bool = True
    host_waits: bool = False
    """The host waits for the GPU in every layer: ms-swift without ``swift_pack_lengths``,
    ``swift_grouped_product`` and ``swift_grad_check``."""
    reference_grads: bool = False
    """The reference has a gradient buffer too: ms-swift 3.8, before its pull request 6027."""

    @property
    def microbatches(self) -> int:
        """Return the microbatches of a step on each replica."""
        return self.layout.microbatches(self.global_batch_size, self.micro_batch_size)

    @property
    def offloads(self) -> bool:
        """Tell whether part of the optimizer is in host memory."""
        return self.optimizer_offload > 0

    @property
    def grad_bytes(self) -> int:
        """Return the bytes of an element of the gradient buffer.

        ``_map_dtype``: fp32 unless ``main_grads_dtype`` says bf16, whatever the optimizer.
        """
        return BYTES[self.main_grads_dtype]


def parse(recipe: Recipe, *, nodes: int, gpus_per_node: int) -> Training:
    """Read a recipe of the Megatron backend.

    Args:
        recipe: with ``args`` as the values file has them.
        nodes: pods of the gang.
        gpus_per_node: GPUs, and so processes, of each.

    Raises:
        LaunchError: CONFIG, naming the flag; also for the transformers backend.
    """
    if recipe.backend != "megatron":
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.backend={recipe.backend}: memory and speed are modelled for megatron only",
            "leave out the plan, or write megatron",
        )
    a = Arguments(args=recipe.args)
    layout = a.layout(nodes, gpus_per_node)
    training = Training(layout=layout, **_plain(a), **_derived(a, recipe.task, layout.tp))
    if recipe.reference == "precomputed":
        return replace(training, reference=False, compares=False, precomputed=True)
    return training


def _plain(a: Arguments) -> dict[str, Any]:
    """Read the flags that mean what they say."""
    default: dict[str, Any] = {field.name: field.default for field in fields(Training)}
    sizes = {name: a.size(flag, default[name]) for name, flag in _SIZES.items()}
    flags = {name: a.flag(flag, default[name]) for name, flag in _FLAGS.items()}
    chosen = {name: a.choice(of, default[name], some) for name, (of, some) in _CHOICES.items()}
    if "muon" in chosen["optimizer"]:  # _check_muon
        flags["distributed_optimizer"] = False
    return {**sizes, **flags, **chosen}


def _derived(a: Arguments, task: str, tp: int) -> dict[str, Any]:
    """Read the flags that follow from several."""
    kind = a.word("rlhf_type", "dpo") if task == "rlhf" else ""
    full = a.choice("tuner_type", "full", ("full", "lora", "lora_llm")) == "full"
    full = full and not any(a.words(name, ()) for name in ADAPTERS)
    compares = bool(kind) and kind not in _NO_REFERENCE
    fraction = min(1.0, a.number("optimizer_offload_fraction", 1.0))
    return {
        "tuner": "full" if full else "lora",
        "pairs": kind in ("dpo", "rm"),
        "compares": compares,
        "reference": compares and full,
        "head": kind != "rm" and a.word("task_type", "causal_lm") == "causal_lm",
        "lora_modules": a.words("target_modules", ("all-linear",)),
        "merges": _merges(a),
        # ms-swift resets it where there is nothing to split
        "sequence_parallel": a.flag("sequence_parallel", False) and tp > 1,
        "recompute_modules": a.words("recompute_modules", ("core_attn",)),
        "optimizer_offload": fraction if a.flag("optimizer_cpu_offload", False) else 0.0,
        "attention_backend": a.word("attention_backend", "flash"),
        "capacity_factor": a.number("moe_expert_capacity_factor", 0.0),
        "saves_optimizer": not a.flag("no_save_optim", False),
    }


def _merges(a: Arguments) -> str:
    if "merge_lora" not in a.args:
        return "last"
    return "every" if a.flag("merge_lora", True) else "never"
