"""Rules of the preference loss's own numbers, and of flags that Megatron's trainer ignores.

Sources are abbreviated as in ``rules/parallelism.py``.
"""

from launchers.rules.engine import (
    RLHF,
    Conflict,
    Range,
    Rule,
    given,
    missing,
    none_of,
    off,
    on,
    one_of,
    under,
)

_WITH_BETA = one_of("rlhf_type", "dpo", "kto", "orpo", "cpo", "simpo")
_QUANTIZATION = (
    "quant_method", "quant_bits", "hqq_axis", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage",
)  # fmt: skip

LOSSES: tuple[Rule, ...] = (
    Conflict(
        id="beta-positive",
        when=(under("beta", "1e-9"), RLHF, _WITH_BETA),
        says="{beta} is not above 0: at 0 every pair has the same loss, and below 0 the rejected "
        "answer is rewarded; 0.1 is usual",
        source="SW rlhf_trainers/dpo_trainer.py:dpo_loss: -logsigmoid(beta * logits), no check",
    ),
    Range(
        id="rpo-alpha",
        flag="rpo_alpha",
        noun="weight of the chosen answer's likelihood",
        when=(RLHF,),
        source="SW megatron/trainers/dpo_trainer.py: loss + rpo_alpha * nll_loss, no check",
    ),
    Range(
        id="label-smoothing",
        flag="label_smoothing",
        noun="share of pairs whose answers are taken to be swapped",
        high="0.5",
        below=True,
        when=(RLHF,),
        source="SW rlhf_trainers/dpo_trainer.py:dpo_loss: at 0.5 the gradient of a pair with equal "
        "log-probabilities is 0, above it the rejected answer is rewarded; no check",
    ),
)
"""Rules of both backends."""
_REWARDS = (
    "reward_funcs", "reward_model", "external_plugins", "gym_env", "teacher_model",
    "teacher_model_server",
)  # fmt: skip
"""Flags by which a run of GRPO may have a reward, or a teacher instead. The code of
``external_plugins`` may: it runs before the trainer is chosen, and can replace it or what it reads.
A plugin that does not, such as one for rows, is found by the first gradients: all 0 end the run
with 65 (``recipe.checkFirstStep``)."""
REWARD: tuple[Rule, ...] = (
    Conflict(
        id="reward-missing",
        flag="reward_funcs",
        when=(RLHF, one_of("rlhf_type", "grpo"), *map(missing, _REWARDS), off("use_gym_env")),
        says="missing, and grpo without a reward trains nothing: every gradient is 0; set "
        "reward_funcs or reward_model (for rows with teacher_prompt: rlhf_type: gkd)",
        source="SW rlhf_trainers/grpo_trainer.py: no error, since rollout_mixin.py:_setup_teacher "
        "takes every run for self-distillation; measured: loss, gradient and reward 0, exit 0",
    ),
)
"""Rules of both backends."""
QUANTIZED: tuple[Rule, ...] = (
    *(
        Conflict(
            id="quantization-method",
            when=(given(flag), missing("quant_method")),
            says=f"{{{flag}}} has no effect without quant_method: the weights would be trained "
            "unquantized; set quant_method: bnb, or remove it",
            source="SW base_args/quant_args.py:get_quantization_config returns None",
        )
        for flag in _QUANTIZATION[1:]
    ),
    Conflict(
        id="quantization-bits",
        when=(missing("quant_bits"), given("quant_method"), none_of("quant_method", "fp8")),
        says="missing, and quant_method {quant_method} requires it; use 4 or 8",
        source="SW base_args/quant_args.py:get_quantization_config: ValueError",
    ),
)
"""Rules of the transformers backend; without the method of a model that is quantized already."""
IGNORED: tuple[Rule, ...] = (
    Conflict(
        id="sync-ref-model",
        when=(RLHF, on("sync_ref_model")),
        says="is ignored by the Megatron trainers, whose reference stays as it is; remove it, or "
        "use recipe.backend: transformers",
        source="SW megatron_args.py declares it; only _init_grpo reads it, to refuse it",
    ),
    *(
        Conflict(
            id="quantization-megatron",
            when=(given(flag),),
            says="is ignored by the Megatron trainers, which load the weights themselves; remove "
            "it, or use recipe.backend: transformers",
            source="SW arguments/base_args/quant_args.py is read by model_args.py: "
            "get_model_kwargs, which swift/megatron does not call",
        )
        for flag in _QUANTIZATION
    ),
)
"""Rules of flags that the Megatron backend accepts and ignores."""
