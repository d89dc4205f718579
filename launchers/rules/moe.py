"""Rules of experts, of tokens gathered for them, and of 8-bit and 4-bit formats.

They need no model. Sources are abbreviated as in ``rules/parallelism.py``; the purpose of gathered
tokens is explained in ``training/packs/equal_packs.py``.
"""

from launchers.config.gpu_models import GPU_MODELS
from launchers.flags.equal_packs import DISPATCHER, NAME
from launchers.rules.engine import (
    GPU_MODEL,
    NOT_RLHF,
    RLHF,
    Conflict,
    Order,
    Rule,
    Words,
    conflicts,
    given,
    has,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
    under,
)
from launchers.rules.parallelism import GRANULARITY, MODULES

BALANCING = "moe_router_load_balancing_type"
CAPACITY, _PAD = "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity"
ROUTER_LOSSES = ("moe_aux_loss_coeff", "moe_z_loss_coeff")
"""Weights of the router's own losses, which are added to that of the preferences."""
_DEEPEP = "moe_enable_deepep"

EXPERTS: tuple[Rule, ...] = (
    *(
        Conflict(
            id="balance-negative",
            when=(under(flag, "0"),),
            says=f"{{{flag}}} would reward unequal use of the experts; use 0 or more",
            source="MC router.py adds it as it is",
        )
        for flag in ROUTER_LOSSES
    ),
    Conflict(
        id="deepep-dispatcher",
        when=(on(_DEEPEP), none_of(DISPATCHER, "flex")),
        says=f"requires {DISPATCHER} flex, not {{{DISPATCHER}}}; use flex or remove this flag",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="capacity-padding-flex",
        when=(on(_PAD), one_of(DISPATCHER, "flex")),
        says=f"cannot be combined with {DISPATCHER} flex, whose backend is deepep; remove it",
        source="MC transformer_config.py: ValueError; moe_flex_dispatcher_backend is deepep",
    ),
    Conflict(
        id="capacity-padding-factor",
        when=(on(_PAD), missing(CAPACITY)),
        says=f"requires {CAPACITY}, which is missing; set it or remove this flag",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="capacity-sinkhorn",
        when=(given(CAPACITY), has(BALANCING, "sinkhorn")),
        says=f"{{{CAPACITY}}} cannot be combined with {BALANCING} sinkhorn; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    Words(
        id="balancing-unknown",
        flag=BALANCING,
        known=("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"),
        source="MC router.py compares the names: a misspelt one balances nothing, in silence",
    ),
)


def _below(capability: int) -> list[str]:
    """Return the GPU models of a lower compute capability, such as 89 for 8.9."""
    return [gpu.name for gpu in GPU_MODELS.values() if int(gpu.arch[2:]) < capability]


EIGHT_BITS: tuple[Rule, ...] = (
    *(
        Conflict(
            id="format-gpu-model",
            when=(given(flag), *recipe, one_of(GPU_MODEL, *_below(least))),
            says=f"a GPU of compute capability {least / 10} or higher is required, and gpuModel is "
            f"{{{GPU_MODEL}}}; remove this flag, or train on other GPUs",
            source="TE 2.16 quantization.py: check_recipe_support fails in the first forward pass",
        )
        for flag, recipe, least in (
            ("fp8_format", (), 89),
            ("fp8_format", (one_of("fp8_recipe", "mxfp8"),), 100),
            ("fp4_format", (), 100),
        )
    ),
    *(
        Conflict(
            id="param-gather-format",
            when=(on(f"{kind}_param_gather"), missing(f"{kind}_format")),
            says=f"requires {kind}_format, which is missing; set it or remove this flag",
            source="MC transformer_config.py: ValueError",
        )
        for kind in ("fp8", "fp4")
    ),
    Conflict(
        id="fp4-and-fp8",
        when=(given("fp4_format"), given("fp8_format")),
        says="fp8_format is set too; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    *(
        Conflict(
            id="fp8-delayed-recompute",
            when=(
                has(MODULES, module),
                one_of(GRANULARITY, "selective"),
                given("fp8_format"),
                one_of("fp8_recipe", "delayed"),
            ),
            says=f"{module} cannot be combined with fp8_recipe delayed; use another recipe, "
            f"or remove {module}",
            source="MC transformer_config.py: ValueError",
        )
        for module in ("moe_act", "layernorm")
    ),
    Conflict(
        id="fp16-and-bf16",
        when=(on("fp16"), on("bf16")),
        says="bf16 is true too; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="mtp-shared-weights",
        when=(on("mtp_shared_weights"), missing("mtp_num_layers")),
        says="requires mtp_num_layers, which is missing; set it or remove this flag",
        source="MB model_config.py: AssertionError",
    ),
)

_GATHERS = one_of(DISPATCHER, NAME)
_LONGER = "SW dataset/packing.py: a longer row is a pack of its own, longer than the others"


_gather_conflict = conflicts(DISPATCHER, f"{NAME} %s", _GATHERS)

GATHER: tuple[Rule, ...] = (
    _gather_conflict(
        "gather-packing",
        "requires equal token counts on all ranks, and without packing they differ; set packing: "
        "true or use alltoall",
        "MC transformer_config.py: ValueError for variable_seq_lengths",
        off("packing"),
    ),
    _gather_conflict(
        "gather-streaming",
        "is untested with streaming; remove streaming or use alltoall",
        "training/packs/packing.py, which looks at packs before the first step, is not loaded",
        on("streaming"),
    ),
    *(
        _gather_conflict(
            "gather-length",
            f"requires {flag}, since no row may be longer than a pack; set it or use alltoall",
            _LONGER,
            on("packing"),
            RLHF,
            missing(flag),
        )
        for flag in ("max_length", "packing_length")
    ),
    Order(
        id="gather-pair-length",
        least="max_length",
        most="packing_length",
        twice=True,
        when=(_GATHERS, on("packing"), RLHF),
        source=_LONGER,
    ),
    Order(
        id="gather-row-length",
        least="max_length",
        most="packing_length",
        when=(_GATHERS, on("packing"), NOT_RLHF),
        source=_LONGER,
    ),
    *(
        _gather_conflict(
            "gather-parallelism",
            f"is untested with {flag} {{{flag}}}; use alltoall",
            source,
            over(flag, "1"),
        )
        for flag, source in (
            (
                "pipeline_model_parallel_size",
                "MC schedules.py sizes what stages send by seq_length",
            ),
            ("context_parallel_size", "SW template/base.py pads each text then"),
        )
    ),
    _gather_conflict(
        "gather-rlhf-type",
        "is untested with rlhf_type {rlhf_type}; use alltoall",
        "SW template/base.py:_kto_data_collator names a batch's parts otherwise",
        RLHF,
        none_of("rlhf_type", "dpo"),
    ),
    _gather_conflict(
        "gather-shared-expert-overlap",
        "cannot be combined with moe_shared_expert_overlap; remove one",
        "MC transformer_config.py: ValueError",
        on("moe_shared_expert_overlap"),
    ),
    _gather_conflict(
        "gather-mtp",
        "is untested with mtp_num_layers; use alltoall",
        "MB modules/mtp_layer.py rolls the words of each text",
        given("mtp_num_layers"),
    ),
)
"""``moe_token_dispatcher_type: allgather``."""
