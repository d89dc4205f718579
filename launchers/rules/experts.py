"""Rules of experts and of fp8 and fp4 that need no model; sources as in ``rules/parallelism.py``."""

from __future__ import annotations

from launchers.flags.equal_packs import DISPATCHER
from launchers.rules.condition import given, has, missing, none_of, on, one_of
from launchers.rules.engine import Conflict, Rule, Words
from launchers.rules.recompute import GRANULARITY, MODULES

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
