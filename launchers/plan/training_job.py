"""The flags of a recipe that memory and time depend on, with the defaults of ms-swift.

Defaults and their consequences are those of ``swift/megatron/arguments/megatron_args.py``; a test
compares them with the installed source.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from launchers.config.flag_value import Value, switch
from launchers.config.recipe import ADAPTERS, Recipe
from launchers.exits import Exit, LaunchError
from launchers.plan.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Typed access to the flags of one recipe."""

    args: Mapping[str, Value]

    def word(self, name: str, default: str) -> str:
        """Return a flag with one value."""
        value = self.args.get(name, default)
        if isinstance(value, list):
            value = " ".join(value)
        return value if isinstance(value, str) else default

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a flag with several values."""
        value = self.args.get(name)
        if isinstance(value, list):
            return tuple(value)
        return tuple(value.split()) if isinstance(value, str) else default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """Return a flag whose value is one of the choices."""
        value = self.word(name, default)
        if value in choices:
            return value
        raise _refused("plan-choice", name, value, " or ".join(choices))

    def size(self, name: str, default: int) -> int:
        """Return a whole number of at least 1."""
        value = self.word(name, str(default))
        if value.isascii() and value.isdecimal() and (int(value) > 0 or name not in self.args):
            return int(value)
        raise _refused("plan-size", name, value, "a whole number from 1")

    def optional(self, name: str) -> int | None:
        """Return a whole number of at least 1; None if the flag is not given."""
        return self.size(name, 1) if name in self.args else None

    def whole(self, name: str, default: int) -> int:
        """Return a whole number, which may be negative."""
        value = self.word(name, str(default))
        try:
            return int(value)
        except ValueError:
            raise _refused("plan-whole", name, value, "a whole number") from None

    def number(self, name: str, default: float) -> float:
        """Return a finite number of at least 0."""
        value = self.word(name, str(default))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return number
        raise _refused("plan-number", name, value, "a number from 0")

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean, as ms-swift's parser reads it."""
        text = self.word(name, str(default))
        value = switch(text)
        if value is None:
            raise _refused("plan-switch", name, text, "true or false")
        return value

    def layout(self, nodes: int, gpus_per_node: int) -> Layout:
        """Return the parallel sizes."""
        vpp = self.optional("virtual_pipeline_model_parallel_size")
        return Layout(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            tp=self.size("tensor_model_parallel_size", 1),
            pp=self.size("pipeline_model_parallel_size", 1),
            cp=self.size("context_parallel_size", 1),
            ep=self.size("expert_model_parallel_size", 1),
            etp=self.size("expert_tensor_parallel_size", 1),
            vpp=None if vpp == 1 else vpp,
            first_layers=self.optional("decoder_first_pipeline_num_layers"),
            last_layers=self.optional("decoder_last_pipeline_num_layers"),
            embedding_is_layer=self.flag("account_for_embedding_in_pipeline_split", False),
            loss_is_layer=self.flag("account_for_loss_in_pipeline_split", False),
        )


def _refused(id: str, name: str, value: str, allowed: str) -> LaunchError:
    return LaunchError(Exit.CONFIG, f'recipe.args.{name}: "{value}"', f"use {allowed}", id=id)


BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of an element by the value of a dtype flag."""
NO_REFERENCE = ("rm", "gkd")
"""``rlhf_type`` without a forward pass of a reference: ms-swift ``rlhf_mixin.py``."""
_DTYPES = ("fp32", "fp16", "bf16", "fp8")
_SIZES = (
    "micro_batch_size", "global_batch_size", "lora_rank", "recompute_num_layers", "max_length",
    "packing_length",
)  # fmt: skip
_FLAGS = {
    "packing": "packing",
    "padding_free": "padding_free",
    "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather",
    "precision_aware": "use_precision_aware_optimizer",
    "reshardable": "dist_ckpt_optim_fully_reshardable",
    "distributed_optimizer": "use_distributed_optimizer",
    "cross_entropy_fusion": "cross_entropy_loss_fusion",
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
"""Flag and choices by field of ``Training``."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training job. Defaults are those of ms-swift."""

    layout: Layout
    micro_batch_size: int = 1
    global_batch_size: int = 16
    max_length: int = 0
    """Tokens of a row; chosen and rejected are one row each. 0: the model's context length."""
    packing: bool = False
    padding_free: bool = True
    """Whether the rows of a microbatch are joined, not each padded to the longest of them."""
    packing_length: int = 0
    """Tokens of a pack; 0: ``max_length``."""
    longest: int = 0
    """Tokens of the longest microbatch of the data, if known; 0: the maximum of the flags."""
    pairs: bool = True
    """Whether a sample is a chosen and a rejected row (DPO)."""
    reference: bool = True
    """Whether a frozen copy of the model is loaded; with LoRA the frozen policy is used."""
    compares: bool = True
    """Whether each microbatch also runs forward through the reference."""
    precomputed: bool = False
    """Whether the reference is computed once, before the first step (``recipe.reference``)."""
    head: bool = True
    """Whether the model ends in logits over the vocabulary; false for reward and class models."""
    tuner: str = "full"
    lora_rank: int = 8
    lora_modules: tuple[str, ...] = ("all-linear",)
    merges: str = "last"
    """Checkpoints whose adapter is also merged into a copy of the model: the ``last`` of the run,
    ``every`` one, or ``never``."""
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
    """Share of the optimizer in host memory: 0 to 1."""
    chunked_step: bool = True
    """Whether the optimizer steps in chunks, which bounds the fp32 copies of bf16 moments."""
    attention_backend: str = "flash"
    cross_entropy_fusion: bool = True
    cross_entropy_impl: str = "native"
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    dispatcher: str = "alltoall"
    moves_rows: bool = False
    """Whether grouped kernels multiply experts' rows, which our kernels move."""
    capacity_factor: float = 0.0
    """Capacity of an expert as a multiple of its balanced number of rows; 0: dropless."""
    overlap_a2a: bool = False
    """Whether all-to-all overlaps other work; ms-swift has no flag for it with DPO."""
    labelled: float = 0.75
    """Share of the tokens with labels, whose logits the head computes (``counted_head``); the
    bench's pairs have this median (``tests/bench/model/pairs.py``)."""
    imbalance: float = 0.0
    """Rows of the fullest rank's experts over the mean, if known (1: forced balance)."""
    saves_optimizer: bool = True
    in_background: bool = True
    """Whether a save keeps a copy of all state in host memory (``recipe.saving``)."""
    reshardable: bool = False
    """Whether the optimizer's state is saved for any layout of the ranks, in fp32."""
    standby: bool = False
    """Whether each rank has a waiting process for the next restart (``restarts.standby``)."""
    host_waits: bool = False
    """Whether the host waits for the GPU in every layer: ms-swift without the features
    ``pack_lengths``, ``grouped_product`` and ``grad_check``."""
    reference_grads: bool = False
    """Whether the reference has a gradient buffer: ms-swift 3.8, before its pull request 6027."""

    @property
    def microbatches(self) -> int:
        """Return the microbatches of a step on each replica."""
        return self.layout.microbatches(self.global_batch_size, self.micro_batch_size)

    @property
    def remakes_rows(self) -> bool:
        """Return whether a layer that is not recomputed makes its experts' inputs again.

        See ``training/experts/moved_rows.py``; with other dispatchers they come from other ranks.
        """
        return self.moves_rows and self.dispatcher == "allgather"

    @property
    def offloads(self) -> bool:
        """Return whether part of the optimizer is in host memory."""
        return self.optimizer_offload > 0

    @property
    def grad_bytes(self) -> int:
        """Return the bytes of a gradient element.

        ``_map_dtype``: fp32 unless ``main_grads_dtype`` is bf16, for every optimizer.
        """
        return BYTES[self.main_grads_dtype]


def parse(recipe: Recipe, *, nodes: int, gpus_per_node: int) -> Training:
    """Parse a recipe of the Megatron backend.

    Raises:
        LaunchError: CONFIG, naming the flag, or for the transformers backend.
    """
    if recipe.backend != "megatron":
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.backend={recipe.backend}: memory and speed are modelled for megatron only",
            "use recipe.backend: megatron, or do not request a plan",
            id="plan-backend",
        )
    a = Arguments(args=recipe.args)
    layout = a.layout(nodes, gpus_per_node)
    training = Training(
        layout=layout,
        in_background=recipe.saves_in_background,
        **_plain(a),
        **_derived(a, recipe.preference, layout.tp),
    )
    if recipe.reference == "precomputed":
        return replace(training, reference=False, compares=False, precomputed=True)
    return training


def _plain(a: Arguments) -> dict[str, Any]:
    """Parse the flags that need no interpretation."""
    default: dict[str, Any] = {field.name: field.default for field in fields(Training)}
    sizes = {name: a.size(name, default[name]) for name in _SIZES}
    flags = {name: a.flag(flag, default[name]) for name, flag in _FLAGS.items()}
    chosen = {name: a.choice(of, default[name], some) for name, (of, some) in _CHOICES.items()}
    if "muon" in chosen["optimizer"]:  # _check_muon
        flags["distributed_optimizer"] = False
    return {**sizes, **flags, **chosen}


def _derived(a: Arguments, preference: str, tp: int) -> dict[str, Any]:
    """Read the flags that follow from several."""
    full = a.choice("tuner_type", "full", ("full", "lora", "lora_llm")) == "full"
    full = full and not any(a.words(name, ()) for name in ADAPTERS)
    compares = bool(preference) and preference not in NO_REFERENCE
    fraction = min(1.0, a.number("optimizer_offload_fraction", 1.0))
    return {
        "tuner": "full" if full else "lora",
        "pairs": preference in ("dpo", "rm"),
        "compares": compares,
        "reference": compares and full,
        "head": preference != "rm" and a.word("task_type", "causal_lm") == "causal_lm",
        "lora_modules": a.words("target_modules", ("all-linear",)),
        "merges": _merges(a),
        # ms-swift resets it where there is nothing to split
        "sequence_parallel": a.flag("sequence_parallel", False) and tp > 1,
        "recompute_modules": a.words("recompute_modules", ("core_attn",)),
        "moves_rows": a.flag("moe_grouped_gemm", True)
        and a.flag("moe_permute_fusion", False)
        and not a.flag("offload_model", False),
        "optimizer_offload": fraction if a.flag("optimizer_cpu_offload", False) else 0.0,
        "attention_backend": a.word("attention_backend", "flash"),
        "capacity_factor": a.number("moe_expert_capacity_factor", 0.0),
        "saves_optimizer": not a.flag("no_save_optim", False),
    }


def _merges(a: Arguments) -> str:
    if "merge_lora" not in a.args:
        return "last"
    return "every" if a.flag("merge_lora", True) else "never"
