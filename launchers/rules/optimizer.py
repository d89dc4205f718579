"""Rules of the optimizer and the schedule that need no model.

Sources are abbreviated as in ``rules/parallelism.py``.
"""

from launchers.config.recipe import TRAINS
from launchers.rules.engine import (
    Conflict,
    Order,
    Range,
    Rule,
    When,
    Words,
    given,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
    under,
)
from launchers.rules.parallelism import PP

AWARE, _OPTIMIZER = "use_precision_aware_optimizer", "optimizer"
_DTYPES = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
EPOCHS, ITERS = "num_train_epochs", "train_iters"
_DECAY, _WARM = "lr_decay_iters", "lr_warmup_iters"
_STYLE = "weight_decay_incr_style"
_ASSERTS = "MC optimizer_config.py: AssertionError"
_SCHEDULE = "MC optimizer_param_scheduler.py: AssertionError"
_UNCHECKED = "TE fused_adam.py and MC optimizer_config.py check no number"
_EFFECT = "SW default_flow.py: iteration % it"


def count(flag: str, source: str) -> Range:
    """Return the rule that a flag is a whole number from 1, however large."""
    return Range(id="count", flag=flag, noun="count", low="1", whole=True, source=source)


def betas(flag: str) -> Range:
    """Return the rule that a decay of Adam's moments is below 1."""
    noun = "decay of a moment"
    return Range(id="adam-beta", flag=flag, noun=noun, high="1", below=True, source=_UNCHECKED)


def epsilon(flag: str) -> Range:
    """Return the rule that Adam's epsilon is small: with 1 no weight moves by more than lr x m."""
    return Range(id="adam-epsilon", flag=flag, noun="epsilon", high="0.01", source=_UNCHECKED)


def warm_up(flag: str, source: str) -> Range:
    """Return the rule that a share of steps for the warm-up of the learning rate is below 1."""
    return Range(id="warmup-fraction", flag=flag, noun="share", high="1", below=True, source=source)


def not_negative(flag: str) -> Range:
    """Return the rule that a flag is 0, which switches it off, or more."""
    return Range(
        id="not-negative",
        flag=flag,
        noun="value",
        source="MC optimizer.py, torch clip_grad.py: less than 0 is off, or grows the weights",
    )


def frozen(adapter: tuple[When, ...]) -> Conflict:
    """Return the rule that some parameters are trained."""
    flag = "freeze_parameters_ratio"
    named = (missing("trainable_parameters"), missing("trainable_parameters_regex"))
    return Conflict(
        id="freeze-all",
        when=(over(flag, "0.999999"), *named, *adapter),
        says=f"{{{flag}}} freezes all parameters: nothing would be trained; use less than 1, or "
        "name trainable_parameters",
        source="SW utils/transformers_utils.py:freeze_parameters; no check",
    )


SPLIT_RATIO = Range(
    id="split-ratio",
    flag="split_dataset_ratio",
    noun="share",
    high="1",
    below=True,
    source="SW data_args.py: the part kept for validation; with 1 nothing is trained on",
)
RANGES: tuple[Rule, ...] = (
    Range(
        id="offload-fraction",
        flag="optimizer_offload_fraction",
        noun="share",
        high="1",
        source="MC hybrid_optimizer.py: the part of the parameters that goes to the host",
    ),
    Range(
        id="save-total-limit",
        flag="save_total_limit",
        noun="limit",
        low="2",
        whole=True,
        source="SW megatron_args.py:__post_init__: ValueError; the best and the last are kept",
    ),
    *(count(name, _EFFECT) for name in ("save_steps", "eval_steps", "logging_steps")),
    count("max_length", "SW dataset/packing.py and template/base.py: tokens of a row"),
    count(EPOCHS, "SW megatron_args.py:init_iters: no iteration with 0"),
    count(ITERS, "SW megatron_args.py:init_iters: no iteration with 0"),
    Range(
        id="lr", flag="lr", noun="rate", high="1", below=True, source=f"{_SCHEDULE}; {_UNCHECKED}"
    ),
    *(betas(name) for name in ("adam_beta1", "adam_beta2")),
    epsilon("adam_eps"),
    *(not_negative(name) for name in ("clip_grad", "weight_decay")),
    Range(id="min-lr", flag="min_lr", noun="rate", source=_SCHEDULE),
    warm_up("lr_warmup_fraction", f"{_SCHEDULE}: warm-up < decay"),
    SPLIT_RATIO,
    Range(
        id="freeze-ratio",
        flag="freeze_parameters_ratio",
        noun="share",
        high="1",
        source="SW megatron_args.py: 0 ~ 1",
    ),
    Words(
        id="attention-backend-unknown",
        flag="attention_backend",
        known=("auto", "flash", "flash_2", "flash_3", "flash_4", "fused", "unfused", "local"),
        source="SW megatron_args.py:_init_attention_backend: KeyError or AssertionError",
    ),
)
OPTIMIZER: tuple[Rule, ...] = (
    frozen((one_of(TRAINS, "full"),)),
    Conflict(
        id="precision-aware-adam",
        when=(on(AWARE), none_of(_OPTIMIZER, "adam")),
        says=f"requires {_OPTIMIZER} adam, not {{{_OPTIMIZER}}}; use adam or remove this flag",
        source=_ASSERTS,
    ),
    Conflict(
        id="precision-aware-distributed",
        when=(on(AWARE), off("use_distributed_optimizer")),
        says="requires use_distributed_optimizer; set use_distributed_optimizer: true",
        source=_ASSERTS,
    ),
    *(
        Conflict(
            id="precision-aware-dtype",
            when=(none_of(flag, "fp32"), off(AWARE)),
            says=f"{{{flag}}} requires {AWARE}; set {AWARE}: true or use fp32",
            source=_ASSERTS,
        )
        for flag in _DTYPES
    ),
    *(
        Range(
            id="adam-beta2-moments",
            flag="adam_beta2",
            noun=f"adam_beta2 with exp_avg_sq_dtype {name}, whose second moments would not decay",
            high=below,
            below=True,
            when=(on(AWARE), one_of("exp_avg_sq_dtype", name)),
            source="1 - adam_beta2 is below half a unit in the last place: simulated in "
            f"tests/launchers/training/optimizer/second_moments.py, {measured}; fp16 decays",
        )
        for name, below, measured in (
            ("bf16", "0.99", "twice too large at 0.999, up to 12 % at 0.99"),
            ("fp8", "0.97", "123 times too large at 0.99, 17 % at 0.98"),
        )
    ),
    *(
        Conflict(
            id="muon-overlap",
            when=(on(flag), one_of(_OPTIMIZER, "muon")),
            says=f"cannot be combined with {_OPTIMIZER} muon; use dist_muon or remove this flag",
            source="SW megatron_args.py:_check_muon: AssertionError",
        )
        for flag in ("overlap_grad_reduce", "overlap_param_gather")
    ),
    Conflict(
        id="freeze-ratio-pipeline",
        when=(
            over("freeze_parameters_ratio", "0"),
            under("freeze_parameters_ratio", "1"),
            over(PP, "1"),
        ),
        says=f"{{freeze_parameters_ratio}} cannot be combined with {PP} {{{PP}}}; "
        "use freeze_parameters or remove it",
        source="SW megatron_args.py, MegatronTunerMixin: ValueError",
    ),
)
SCHEDULE: tuple[Rule, ...] = (
    Order(id="min-lr-above-lr", least="min_lr", most="lr", source=_SCHEDULE),
    Order(id="warmup-init-above-lr", least="lr_warmup_init", most="lr", source=_SCHEDULE),
    Order(
        id="warmup-decay-iters",
        least=_WARM,
        most=_DECAY,
        strict=True,
        when=(missing("lr_warmup_fraction"),),
        source=_SCHEDULE,
    ),
    Order(
        id="warmup-train-iters",
        least=_WARM,
        most=ITERS,
        strict=True,
        when=(missing("lr_warmup_fraction"), missing(_DECAY), missing(EPOCHS)),
        source=_SCHEDULE,
    ),
    Conflict(
        id="wsd-decay-iters",
        when=(missing("lr_wsd_decay_iters"), one_of("lr_decay_style", "WSD")),
        says="missing, and lr_decay_style WSD requires it; set the iterations of the last phase",
        source=_SCHEDULE,
    ),
    *(
        Conflict(
            id="weight-decay-constant",
            when=(given(flag), one_of(_STYLE, "constant")),
            says=f"{{{flag}}} requires a {_STYLE} other than constant; use weight_decay",
            source="SW megatron_args.py:_init_weigh_decay: AssertionError",
        )
        for flag in ("start_weight_decay", "end_weight_decay")
    ),
    *(
        Conflict(
            id="weight-decay-missing",
            when=(missing(flag), none_of(_STYLE, "constant")),
            says=f"missing, and {_STYLE} {{{_STYLE}}} requires it; set it",
            source="SW megatron_args.py:_init_weigh_decay: AssertionError",
        )
        for flag in ("start_weight_decay", "end_weight_decay")
    ),
    Order(
        id="weight-decay-order",
        least="start_weight_decay",
        most="end_weight_decay",
        source=_SCHEDULE,
    ),
)
