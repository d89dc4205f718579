"""Rules of recomputation that need no model; sources as in ``rules/parallelism.py``."""

from __future__ import annotations

from launchers.rules.condition import given, has, missing, off, on, one_of, over
from launchers.rules.engine import Conflict, Rule, Words
from launchers.rules.parallelism import size

GRANULARITY, LAYERS = "recompute_granularity", "recompute_num_layers"
METHOD, MODULES = "recompute_method", "recompute_modules"
NAMES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
_SELECTIVE, _FULL = one_of(GRANULARITY, "selective"), one_of(GRANULARITY, "full")

RECOMPUTE: tuple[Rule, ...] = (
    size(LAYERS, "MC recompute.py: uniform steps by it; with 0 the loop has no end"),
    Conflict(
        id="recompute-method-missing",
        flag=METHOD,
        when=(_FULL, missing(METHOD)),
        says=f"missing, and {GRANULARITY} full needs it; write uniform or block",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-layers-missing",
        flag=LAYERS,
        when=(_FULL, missing(LAYERS)),
        says=f"missing, and {GRANULARITY} full needs it; write 1",
        source="MC transformer_config.py: ValueError",
    ),
    *(
        Conflict(
            id="recompute-selective-flags",
            flag=flag,
            when=(_SELECTIVE, given(flag)),
            says=f"{{{flag}}} goes with {GRANULARITY} full, and it is selective; remove one",
            source="SW megatron_args.py (method), MC transformer_config.py (layers): ValueError",
        )
        for flag in (METHOD, LAYERS)
    ),
    Words(
        id="recompute-module-unknown",
        flag=MODULES,
        known=NAMES,
        when=(_SELECTIVE,),
        source="MC transformer_config.py: AssertionError, the same names in 0.16.1",
    ),
    Conflict(
        id="recompute-moe-act",
        flag=MODULES,
        when=(_SELECTIVE, has(MODULES, "moe_act"), off("moe_grouped_gemm")),
        says="moe_act needs moe_grouped_gemm; write moe_grouped_gemm: true, or remove moe_act",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-moe-layer",
        flag="moe_layer_recompute",
        when=(on("moe_layer_recompute"), _FULL),
        says=f"does not go with {GRANULARITY} full, which includes it; remove it",
        source="MC transformer_config.py: ValueError",
    ),
    Conflict(
        id="recompute-mtp",
        flag=LAYERS,
        when=(
            given("mtp_num_layers"),
            _FULL,
            one_of(METHOD, "uniform"),
            over(LAYERS, "1"),
        ),
        says=f"{{{LAYERS}}}, and mtp_num_layers with full uniform recompute needs 1; write 1",
        source="MC multi_token_prediction.py: AssertionError in the first forward",
    ),
)
