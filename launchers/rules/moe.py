"""Rules of experts, of tokens gathered for them, and of 8-bit and 4-bit formats.

They need no model. Sources are abbreviated as in ``rules/parallelism.py``; the purpose of gathered
tokens is explained in ``training/packs/equal_packs.py``.
"""

from __future__ import annotations

from launchers.flags.equal_packs import DISPATCHER, NAME
from launchers.rules.engine import (
    TASK,
    Conflict,
    Order,
    Rule,
    When,
    Words,
    given,
    has,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
)
from launchers.rules.parallelism import GRANULARITY, MODULES

BALANCING = "moe_router_load_balancing_type"
_CAPACITY, _PAD = "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity"
_DEEPEP = "moe_enable_deepep"

EXPERTS: tuple[Rule, ...] = (
    Conflict(
        id="deepep-dispatcher",
        flag=_DEEPEP,
        when=(on(_DEEPEP), none_of(DISPATCHER, "flex")),
        says=f"needs {DISPATCHER} flex, and it is {{{DISPATCHER}}}; write flex, or remove it",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="capacity-padding-flex",
        flag=_PAD,
        when=(on(_PAD), one_of(DISPATCHER, "flex")),
        says=f"does not go with {DISPATCHER} flex, whose backend is deepep; remove it",
        source="MC transformer_config.py: ValueError; moe_flex_dispatcher_backend is deepep",
    ),
    Conflict(
        id="capacity-padding-factor",
        flag=_PAD,
        when=(on(_PAD), missing(_CAPACITY)),
        says=f"needs {_CAPACITY}, which is missing; write it, or remove this",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="capacity-sinkhorn",
        flag=_CAPACITY,
        when=(given(_CAPACITY), has(BALANCING, "sinkhorn")),
        says=f"{{{_CAPACITY}}} does not go with {BALANCING} sinkhorn; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    Words(
        id="balancing-unknown",
        flag=BALANCING,
        known=("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"),
        source="MC router.py compares the names: a misspelt one balances nothing, in silence",
    ),
)
EIGHT_BITS: tuple[Rule, ...] = (
    *(
        Conflict(
            id="param-gather-format",
            flag=f"{kind}_param_gather",
            when=(on(f"{kind}_param_gather"), missing(f"{kind}_format")),
            says=f"needs {kind}_format, which is missing; write it, or remove this",
            source="MC transformer_config.py: ValueError",
        )
        for kind in ("fp8", "fp4")
    ),
    Conflict(
        id="fp4-and-fp8",
        flag="fp4_format",
        when=(given("fp4_format"), given("fp8_format")),
        says="fp8_format is given too; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    *(
        Conflict(
            id="fp8-delayed-recompute",
            flag=MODULES,
            when=(
                one_of(GRANULARITY, "selective"),
                has(MODULES, module),
                given("fp8_format"),
                one_of("fp8_recipe", "delayed"),
            ),
            says=f"{module} does not go with fp8_recipe delayed; write another recipe, "
            f"or remove {module}",
            source="MC transformer_config.py: ValueError",
        )
        for module in ("moe_act", "layernorm")
    ),
    Conflict(
        id="fp16-and-bf16",
        flag="fp16",
        when=(on("fp16"), on("bf16")),
        says="bf16 is true too; remove one",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="mtp-shared-weights",
        flag="mtp_shared_weights",
        when=(on("mtp_shared_weights"), missing("mtp_num_layers")),
        says="needs mtp_num_layers, which is missing; write it, or remove this",
        source="MB model_config.py: AssertionError",
    ),
)

_GATHERS = one_of(DISPATCHER, NAME)
_RLHF = one_of(TASK, "rlhf")
_LONGER = "SW dataset/packing.py: a longer row is a pack of its own, longer than the others"


def _no(id: str, says: str, source: str, *when: When) -> Conflict:
    return Conflict(
        id=id, flag=DISPATCHER, when=(_GATHERS, *when), says=f"{NAME} {says}", source=source
    )


GATHER: tuple[Rule, ...] = (
    _no(
        "gather-packing",
        "takes as many tokens from each rank, and without packing they differ; write packing: "
        "true, or alltoall",
        "MC transformer_config.py: ValueError for variable_seq_lengths",
        off("packing"),
    ),
    _no(
        "gather-streaming",
        "was not tried with streaming; remove it, or write alltoall",
        "training/packs/packing.py, which looks at packs before the first step, is not loaded",
        on("streaming"),
    ),
    *(
        _no(
            "gather-length",
            f"needs {flag}: no row may be longer than a pack; write it, or alltoall",
            _LONGER,
            on("packing"),
            _RLHF,
            missing(flag),
        )
        for flag in ("max_length", "packing_length")
    ),
    Order(
        id="gather-pair-length",
        least="max_length",
        most="packing_length",
        twice=True,
        when=(_GATHERS, on("packing"), _RLHF),
        source=_LONGER,
    ),
    Order(
        id="gather-row-length",
        least="max_length",
        most="packing_length",
        when=(_GATHERS, on("packing"), none_of(TASK, "rlhf")),
        source=_LONGER,
    ),
    *(
        _no(
            "gather-parallelism",
            f"was not tried with {flag} {{{flag}}}; write alltoall",
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
    _no(
        "gather-rlhf-type",
        "was not tried with rlhf_type {rlhf_type}; write alltoall",
        "SW template/base.py:_kto_data_collator names a batch's parts otherwise",
        _RLHF,
        none_of("rlhf_type", "dpo"),
    ),
    _no(
        "gather-shared-expert-overlap",
        "does not go with moe_shared_expert_overlap; remove one",
        "MC transformer_config.py: ValueError",
        on("moe_shared_expert_overlap"),
    ),
    _no(
        "gather-mtp",
        "was not tried with mtp_num_layers; write alltoall",
        "MB modules/mtp_layer.py rolls the words of each text",
        given("mtp_num_layers"),
    ),
)
"""``moe_token_dispatcher_type: allgather``."""
