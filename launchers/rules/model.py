"""Rules that need the model's sizes: one small function each, which returns what is wrong.

Sources are abbreviated as in ``rules/parallelism.py``. All are run before GPUs load anything.
"""

from collections.abc import Callable
from dataclasses import dataclass

from launchers.config.recipe import REFERENCE
from launchers.plan.model_config import ModelConfig
from launchers.refusal import Refusal
from launchers.rules.engine import Facts, has, missing, on
from launchers.rules.parallelism import (
    CP,
    ENDS,
    EP,
    ETP,
    FIRST,
    GRANULARITY,
    LAST,
    LAYOUT,
    MODULES,
    NEEDS_SEQUENCE,
    PP,
    SEQUENCE,
    TP,
    VPP,
)
from launchers.upstream.templates import UNPACKED_ARCHITECTURES


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [n for n in range(1, number + 1) if number % n == 0]


Check = Callable[[ModelConfig, "Known"], Refusal | None]


@dataclass(frozen=True, kw_only=True)
class Known:
    """The facts of a recipe whose sizes are all whole numbers from 1."""

    facts: Facts
    core: tuple[int, ...]

    def size(self, flag: str) -> int:
        """Return a size, 1 where it is not given."""
        return self.facts.size(flag) or 1

    def given(self, flag: str) -> int | None:
        """Return a size, None where it is not given."""
        return self.facts.size(flag)

    def recomputes(self, module: str) -> bool:
        """Return whether a module is recomputed by name."""
        selective = self.facts.text(GRANULARITY) == "selective"
        return selective and has(MODULES, module).holds(self.facts)


def heads(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py: ValueError; each rank holds whole heads."""
    return _divides("tp-heads", TP, known, model.heads, "attention heads")


def key_heads(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py: ValueError unless one is a multiple of the other."""
    tp, kv = known.size(TP), model.kv_heads
    if kv % tp == 0 or tp % kv == 0 or model.heads % tp:
        return None
    fits = [n for n in divisors(model.heads) if kv % n == 0 or n % kv == 0]
    return refused(
        "kv-heads",
        TP,
        f"{tp} neither divides nor is a multiple of the model's {kv} "
        f"key-value heads; use {_choice(fits)}",
    )


def experts(model: ModelConfig, known: Known) -> Refusal | None:
    """MC moe_layer.py: AssertionError; each rank holds whole experts."""
    return _divides("expert-count", EP, known, model.experts, "experts")


def expert_width(model: ModelConfig, known: Known) -> Refusal | None:
    """MC experts.py splits the width of an expert; tensor_parallel/utils.py:divide asserts."""
    return _divides("expert-width", ETP, known, model.expert_ffn, "moe_intermediate_size")


def width(model: ModelConfig, known: Known) -> Refusal | None:
    """MC mlp.py splits the width of a dense MLP; tensor_parallel/utils.py:divide asserts."""
    is_dense = not model.is_moe or model.dense_layers > 0
    return _divides("mlp-width", TP, known, model.ffn, "intermediate_size") if is_dense else None


def shared_width(model: ModelConfig, known: Known) -> Refusal | None:
    """MC shared_experts.py is an MLP of tensor parallelism, not of the experts'."""
    return _divides(
        "shared-expert-width", TP, known, model.shared_ffn, "width of the shared experts"
    )


def sequence(model: ModelConfig, known: Known) -> Refusal | None:
    """MC moe_layer.py:forward: ValueError in training; the text is that of the chart's row."""
    if not model.is_moe or known.size(TP) < 2 or known.facts.is_on(SEQUENCE):
        return None
    return refused(
        NEEDS_SEQUENCE,
        SEQUENCE,
        f"off, but experts with {TP} {known.size(TP)} require it; set it to true",
    )


def layers(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py and transformer_block.py: ValueError or AssertionError."""
    if known.facts.text(LAYOUT):
        return None  # it says all about the stages
    pp, ends = known.size(PP), [n for n in map(known.given, (FIRST, LAST)) if n is not None]
    if pp == 1 and ends:
        return None  # refused by the rows, without the model
    extra = sum(known.facts.is_on(end) for end in ENDS)
    stages, left = pp - len(ends), model.layers + extra - sum(ends)
    if bool(stages) == bool(left) and left >= 0 and (not stages or left % stages == 0):
        return None
    inner = f" less {sum(ends)} of the first or last stage" if ends else ""
    counted = f" plus {extra} for embedding and loss" if extra else ""
    return refused(
        "pipeline-uneven",
        PP,
        f"{model.layers} layers{counted}{inner} cannot be split evenly over "
        f"{stages} {'inner ' if ends else ''}stages; change it or set {FIRST} or {LAST}",
    )


def chunks(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py: ValueError; each chunk of a stage holds as many layers."""
    vpp, pp = known.size(VPP), known.size(PP)
    if vpp == 1 or pp == 1 or known.facts.text(LAYOUT) or layers(model, known):
        return None
    ends = [n for n in map(known.given, (FIRST, LAST)) if n is not None]
    left = model.layers + sum(known.facts.is_on(end) for end in ENDS) - sum(ends)
    inner = [left // (pp - len(ends))] if pp > len(ends) else []
    for held in (*ends, *inner):
        if held % vpp:
            return refused(
                "vpp-uneven",
                VPP,
                f"{vpp} does not divide the {held} layers of a stage; "
                f"use {_choice(divisors(held))}",
            )
    return None


def layernorm(model: ModelConfig, known: Known) -> Refusal | None:
    """MB transformer_layer.py asks ``moe_router not in cuda_graph_scope``.

    From megatron-core 0.18 on transformer_config.py leaves None there and ignores the given value,
    also that of megatron_extra_kwargs (0.16 and 0.17 leave a list): TypeError when the model is
    built. Dense layers do not ask. mcore-bridge 1.6.5 asks still.
    """
    if not model.is_moe or known.core < (0, 18) or not known.recomputes("layernorm"):
        return None
    return refused(
        "recompute-layernorm-moe",
        MODULES,
        f"recomputing layernorm fails for experts in megatron-core "
        f"{'.'.join(map(str, known.core))} (mcore-bridge reads cuda_graph_scope, which is "
        "None); remove it",
    )


def latent(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py: ValueError without multi-latent attention."""
    if "kv_lora_rank" in model.unmodelled or not known.recomputes("mla_up_proj"):
        return None
    return refused(
        "recompute-mla",
        MODULES,
        "mla_up_proj requires multi-latent attention, which the model does not have; remove it",
    )


def shared_overlap(model: ModelConfig, known: Known) -> Refusal | None:
    """MC transformer_config.py: ValueError."""
    overlap = "moe_shared_expert_overlap"
    if not (model.shared_ffn and known.recomputes("shared_experts") and known.facts.is_on(overlap)):
        return None
    return refused(
        "recompute-shared-overlap",
        MODULES,
        f"shared_experts cannot be combined with {overlap}; remove one",
    )


def half_precision(model: ModelConfig, known: Known) -> Refusal | None:
    """SW model_args.py:_init_mixed_precision adds bf16; MC transformer_config.py: ValueError."""
    silent = all(missing(flag).holds(known.facts) for flag in ("bf16", "torch_dtype"))
    if model.dtype != "bfloat16" or not silent or not on("fp16").holds(known.facts):
        return None
    return refused(
        "fp16-bf16-model", "fp16", "on, but the model is in bfloat16; set torch_dtype: float16"
    )


def unpacked(model: ModelConfig, known: Known) -> Refusal | None:
    """SW pipelines/train/sft.py: ValueError; the rows in rules/data.py judge a given template."""
    flag = next((name for name in ("packing", "padding_free") if known.facts.is_on(name)), None)
    given = [name for name in ("template", "external_plugins") if known.facts.text(name)]
    if flag is None or given or model.architecture not in UNPACKED_ARCHITECTURES:
        return None
    return refused(
        f"template-{flag.replace('_', '-')}",
        flag,
        f"on, but the template of {model.architecture} does not support it; "
        "remove packing and set padding_free: false",
    )


def modalities(model: ModelConfig, known: Known) -> Refusal | None:
    """reference/policy.py refuses it too: a pair's id is made of its tokens only."""
    if not model.multimodal or known.facts.text(REFERENCE) != "precomputed":
        return None
    return Refusal(
        id="precomputed-multimodal",
        path=REFERENCE,
        says="precomputed requires a model that reads text alone, and this one reads images or "
        "sound too; use online",
    )


MODEL: tuple[Check, ...] = (
    unpacked, modalities, heads, key_heads, width, experts, expert_width, shared_width, sequence,
    layers, chunks, layernorm, latent, shared_overlap, half_precision,
)  # fmt: skip
READ = frozenset({TP, PP, CP, EP, ETP, VPP, FIRST, LAST})
"""Sizes that must be right before these rules can judge."""
REPLACED = READ | {
    "num_layers",
    "num_attention_heads",
    "num_query_groups",
    "num_moe_experts",
    "ffn_hidden_size",
    "moe_ffn_hidden_size",
    "moe_shared_expert_intermediate_size",
    SEQUENCE,
    GRANULARITY,
    MODULES,
    *ENDS,
    LAYOUT,
}
"""None of these rules judges a run that replaces one of these inside megatron-core."""


def refused(id: str, flag: str, says: str) -> Refusal:
    """Return the refusal of one flag."""
    return Refusal(id=id, path=f"recipe.args.{flag}", says=says)


def _divides(id: str, flag: str, known: Known, total: int, what: str) -> Refusal | None:
    size = known.size(flag)
    if total % size == 0:  # also a model without them
        return None
    fits = _choice(divisors(total))
    return refused(id, flag, f"{size} does not divide the model's {what} {total}; use {fits}")


def _choice(numbers: list[int], most: int = 8) -> str:
    """List some numbers as a choice.

    >>> _choice([1, 2, 4])
    '1, 2 or 4'
    """
    *rest, last = map(str, numbers[:most])
    return f"{', '.join(rest)} or {last}" if rest else last
