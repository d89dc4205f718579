"""All rules of a backend: what Megatron and ms-swift refuse, checked before GPUs are reserved.

To add a rule: a row in the module of its subject, which the chart may judge too (`make flags`), or
a function in ``rules/model.py`` if it needs the model's sizes, or in ``rules/warnings.py`` if the
setting is valid but almost certainly unintended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from launchers.config.flag_value import Value, as_text
from launchers.config.recipe import ADAPTERS, PROMPT_ONCE, TRAINS, TUNER, Recipe
from launchers.flags import core_overrides as overrides
from launchers.plan.model_config import ModelConfig
from launchers.refusal import Refusal
from launchers.rules import model, pairs, warnings
from launchers.rules.adapter import ADAPTER
from launchers.rules.data import DATA, ELSEWHERE, LOSS, SAVING, TRANSFORMERS
from launchers.rules.engine import GPU_MODEL, Facts, Range, Rule
from launchers.rules.evaluation import EVALUATION, ON_MEGATRON, ON_TRANSFORMERS
from launchers.rules.model import READ, Known
from launchers.rules.moe import EIGHT_BITS, EXPERTS, GATHER
from launchers.rules.optimizer import OPTIMIZER, RANGES, SCHEDULE
from launchers.rules.pairs import ONCE, ONCE_ELSEWHERE, WEIGHTS, WEIGHTS_ELSEWHERE
from launchers.rules.parallelism import (
    DENSE,
    GBS,
    MBS,
    PIPELINE,
    RECOMPUTE,
    SHARDING,
    SIZES,
    TENSOR,
    WORLD,
)
from launchers.rules.preference import IGNORED, LOSSES, QUANTIZED, REWARD
from launchers.rules.reference import REFERENCES, REFERENCES_ELSEWHERE
from launchers.upstream.versions import parse_version

SWIFT = "4.5.3"
"""ms-swift of the pinned image."""
CORE = "0.18.2"
"""megatron-core of the pinned image; older ones allow more."""
OVERRIDES = {"megatron": "megatron_extra_kwargs", "transformers": ""}
"""Backend to the flag whose map replaces others (SW model/utils.py:get_mcore_model_config)."""
SCRIPT = "script"
"""The backend without flags, and so without rules."""
ALONE = Refusal(
    id="script-alone",
    path="recipe.script",
    says="the launcher does not know its steps: no checkpoint is sealed, resumed or exported, no "
    "hang is noticed; it saves and resumes itself in $DPO_RUN_FOLDER, on SIGTERM with exit code 75",
)
ROWS: dict[str, tuple[Rule, ...]] = {
    "megatron": (
        *SIZES,
        *RANGES,
        *WORLD,
        *PIPELINE,
        *TENSOR,
        *RECOMPUTE,
        *EXPERTS,
        *EIGHT_BITS,
        *OPTIMIZER,
        *DATA,
        *SCHEDULE,
        *LOSS,
        *SAVING,
        *ELSEWHERE,
        *REFERENCES,
        *WEIGHTS,
        *ONCE,
        *GATHER,
        *ADAPTER,
        *EVALUATION,
        *ON_MEGATRON,
        *LOSSES,
        *REWARD,
        *IGNORED,
    ),
    "transformers": (
        *TRANSFORMERS,
        *ELSEWHERE,
        *REFERENCES_ELSEWHERE,
        *WEIGHTS_ELSEWHERE,
        *ONCE_ELSEWHERE,
        *EVALUATION,
        *ON_TRANSFORMERS,
        *SHARDING,
        *LOSSES,
        *REWARD,
        *QUANTIZED,
    ),
}
"""Backend to the rules that need no model, of all releases; ``rows`` has those of one, in the order
of their messages."""
UNWISE: dict[str, tuple[Rule, ...]] = {
    "megatron": warnings.MEGATRON,
    "transformers": warnings.TRANSFORMERS,
}
"""Backend to the rules of settings that are valid but almost certainly unintended."""

_OF_BOTH = {
    "adam_beta1": "0.9", "adam_beta2": "0.95", "weight_decay": "0.1", "lora_rank": "8",
    "lora_alpha": "32", "lora_dropout": "0.05", "freeze_parameters_ratio": "0.0",
}  # fmt: skip
_MEGATRON = {
    **dict.fromkeys((*DENSE, "expert_model_parallel_size", "expert_tensor_parallel_size"), "1"),
    MBS: "1",
    GBS: "16",
    "rlhf_type": "dpo",
    "lr_warmup_init": "0.0",
    "lr_warmup_iters": "0",
    "recompute_granularity": "selective",
    "attention_backend": "flash",
    "optimizer": "adam",
    "moe_token_dispatcher_type": "alltoall",
    "fp8_recipe": "delayed",
    "min_lr": "0",
    **dict.fromkeys(("main_grads_dtype", "main_params_dtype", "exp_avg_dtype"), "fp32"),
    "exp_avg_sq_dtype": "fp32",
    "optimizer_offload_fraction": "1.0",
    "save_steps": "500",
    **_OF_BOTH,
    "adam_eps": "1e-08",
    "clip_grad": "1.0",
    "moe_aux_loss_coeff": "0.0",
    "lr_decay_style": "cosine",
    "weight_decay_incr_style": "constant",
    "logging_steps": "5",
    "save_strategy": "steps",
    "split_dataset_ratio": "0.0",
    "f_divergence_type": "reverse_kl",
    "tuner_type": "full",
    "label_smoothing": "0.0",
    **dict.fromkeys(
        ("padding_free", "train_dataloader_shuffle", "save_safetensors", "moe_grouped_gemm"), "true"
    ),
    "use_distributed_optimizer": "true",
    "bridge_backend": "mcore-bridge",  # since 4.5; no rule of an earlier release reads it
}
_TRANSFORMERS = {
    "per_device_train_batch_size": "1",
    "save_strategy": "steps",
    "max_steps": "-1",
    "rlhf_type": "dpo",
    "split_dataset_ratio": "0.0",
    "sequence_parallel_size": "1",
    "label_smoothing": "0",
    "label_smoothing_factor": "0.0",
    "tuner_type": "lora",
    **_OF_BOTH,
    "adam_epsilon": "1e-08",
    "max_grad_norm": "1.0",
    "num_train_epochs": "3.0",
    "dataloader_persistent_workers": "true",  # since 4.5.3, whose rule reads it
}
DEFAULTS: dict[str, dict[str, str]] = {"megatron": _MEGATRON, "transformers": _TRANSFORMERS}
"""Backend to the defaults of what rules read, the same in each release of ms-swift that was read; a
test compares them with its source. Switches that are off by default are left out: missing is off.
"""


PLAIN = Recipe(backend="megatron", task="rlhf", model="", dataset=(), args={}).own
"""The own keys of a recipe of DPO that gives no others, with their defaults."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The model, processes and kind of training for which a recipe's flags are judged."""

    model_config: ModelConfig | None
    """The model's sizes; None while they are not known."""
    nodes: int
    """Pods of the gang."""
    gpus_per_node: int
    """Processes of each pod."""
    backend: str
    """The recipe's."""
    own: Mapping[str, str] = field(default_factory=lambda: dict(PLAIN))
    """The recipe's own keys (``Recipe.own``)."""
    gpu_model: str = ""
    """The chart's ``gpuModel``; empty if it is not known."""
    core: str = CORE
    swift: str = SWIFT

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        *,
        model_config: ModelConfig | None,
        nodes: int,
        gpus_per_node: int,
        gpu_model: str = "",
        core: str = CORE,
        swift: str = "",
    ) -> Context:
        """Return the context of a recipe.

        Until known ``model_config`` is None, ``gpu_model`` empty; ``swift`` empty is the recipe's.
        """
        return cls(
            model_config=model_config,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            backend=recipe.backend,
            own=recipe.own,
            gpu_model=gpu_model,
            core=core,
            swift=swift or recipe.swift_version or SWIFT,
        )


@cache
def rows(backend: str, swift: str) -> tuple[Rule, ...]:
    """Return the rules of a release of ms-swift that need no model.

    Those of all releases come first, as in the chart, which shares them between its tables.
    """
    found = (rule for rule in ROWS[backend] if _is_of(rule, parse_version(swift)))
    return tuple(sorted(found, key=lambda rule: bool(rule.since or rule.fixed_in)))


def _is_of(rule: Rule, swift: tuple[int, ...]) -> bool:
    begins = not rule.since or parse_version(rule.since) <= swift
    return begins and (not rule.fixed_in or swift < parse_version(rule.fixed_in))


def check(args: Mapping[str, Value], context: Context) -> list[Refusal]:
    """Return a message for each rule that a recipe breaks."""
    if context.backend == SCRIPT:
        return []
    facts = _facts(args, context)
    flag = OVERRIDES[context.backend]
    messages = overrides.wrong(flag, args.get(flag, ""))
    rules = rows(context.backend, context.swift)
    messages += [message for rule in rules for message in rule.judge(facts)]
    return list(dict.fromkeys(messages + _of_model(facts, context)))


def warn(args: Mapping[str, Value], context: Context) -> list[Refusal]:
    """Return what is valid but almost certainly unintended; arguments as of ``check``."""
    if context.backend == SCRIPT:
        return [ALONE]
    facts, model_config = _facts(args, context), context.model_config
    messages = [message for rule in UNWISE[context.backend] for message in rule.judge(facts)]
    if context.backend == "megatron" and _is_sized(facts):
        known = Known(facts=facts, core=parse_version(context.core))
        messages += [found for hint in warnings.PLAIN if (found := hint(known))]
        if model_config is not None:
            messages += [found for rule in warnings.MODEL if (found := rule(model_config, known))]
    return messages


def why_twice(args: Mapping[str, Value], context: Context) -> str:
    """Return why ``promptOnce: auto`` computes prompts twice; empty if it computes them once.

    It does where every rule of ``true`` accepts the recipe and runs on GPUs have had the like
    (``rules/pairs.py``). Arguments as of ``check``.
    """
    if context.backend != "megatron":
        return f"requires backend megatron, not {context.backend}"
    facts = _facts(args, replace(context, own={**context.own, PROMPT_ONCE: "true"}))
    for says in (found.says for rule in ONCE for found in rule.judge(facts)):
        return says.removeprefix("true ").removesuffix("; use false")
    model_config = context.model_config
    found = [what for when, what in pairs.UNMEASURED if when.holds(facts)]
    unmeasured = [what.format_map(facts.texts) for what in found]
    unmeasured += sorted(facts.overridden.difference(pairs.OVERRIDES))
    name = model_config.architecture if model_config else ""
    if name not in pairs.ARCHITECTURES:
        unmeasured.append(name or "a model of unknown architecture")
    unmeasured += model_config.unmodelled if model_config else ()
    return f"not measured with {unmeasured[0]}" if unmeasured else ""


def ranged(backend: str) -> frozenset[str]:
    """Return the flags that have a rule for their range; it is stricter than their type."""
    bounded = (rule for rule in ROWS[backend] if isinstance(rule, Range) and not rule.when)
    return frozenset(rule.flag for rule in bounded)


def empty(args: Mapping[str, Value]) -> list[Refusal]:
    """Return a message for each flag that is given without a value."""
    says = 'empty; use null to remove it, or [""] for an empty value'
    return [
        Refusal(id="flag-empty", path=f"recipe.args.{name}", says=says)
        for name, value in sorted(args.items())
        if value in ("", [])
    ]


def _facts(args: Mapping[str, Value], context: Context) -> Facts:
    """Collect the facts of a recipe; what is given as empty counts as missing."""
    given = {name: text for name, value in args.items() if (text := as_text(value))}
    texts = {**DEFAULTS[context.backend], **context.own, GPU_MODEL: context.gpu_model, **given}
    is_full = texts.get(TUNER, "full") == "full" and not any(map(texts.get, ADAPTERS))
    replaced = overrides.read_overrides(args.get(OVERRIDES[context.backend], ""))
    return Facts(
        texts={**texts, TRAINS: "full" if is_full else "adapter"},
        nodes=context.nodes,
        gpus=context.gpus_per_node,
        overridden=frozenset(replaced or ()),
    )


def _is_sized(facts: Facts) -> bool:
    """Return whether all sizes are valid; the rows refuse those that are not."""
    return all(not facts.text(flag) or facts.size(flag) for flag in (*READ, MBS, GBS))


def _of_model(facts: Facts, context: Context) -> list[Refusal]:
    model_config = context.model_config
    if model_config is None or context.backend != "megatron" or not _is_sized(facts):
        return []
    if facts.overridden & model.REPLACED:
        return []
    known = Known(facts=facts, core=parse_version(context.core))
    return [message for rule in model.MODEL if (message := rule(model_config, known))]
