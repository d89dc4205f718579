"""Rules of the experts' all-to-all beside computation; sources as in ``rules/parallelism.py``.

``flags/overlap.py:refusals`` says some of it of a run that no launcher has started.
"""

from __future__ import annotations

from launchers.flags.overlap import SWITCH
from launchers.rules.condition import When, given, has, none_of, off, on, one_of, over, under
from launchers.rules.engine import Conflict, Rule
from launchers.rules.facts import REFERENCE
from launchers.rules.recompute import GRANULARITY, LAYERS, METHOD, MODULES

_EP, _PP = "expert_model_parallel_size", "pipeline_model_parallel_size"
_CONFIG = "MC transformer_config.py: AssertionError"


def _no(says: str, source: str, *when: When) -> Conflict:
    return Conflict(flag=SWITCH, when=(on(SWITCH), *when), says=says, source=source)


OVERLAP: tuple[Rule, ...] = (
    _no(
        "needs recipe.reference precomputed: a reference in each step has no plan to run beside; "
        "write precomputed, or remove this",
        "SW trainers/dpo_trainer.py:forward_step runs it and joins the outputs",
        none_of(REFERENCE, "precomputed"),
    ),
    _no(
        f"needs {_EP} of 2 or more, and it is {{{_EP}}}; remove this",
        _CONFIG,
        under(_EP, "2"),
    ),
    _no(
        f"needs {_PP} 1, and it is {{{_PP}}}: a pipeline needs virtual stages then, which a "
        "precomputed reference has not been tried with; remove this",
        f"{_CONFIG} without virtual stages",
        over(_PP, "1"),
    ),
    _no(
        f"does not go with {GRANULARITY} full; write none, or selective with {MODULES} moe_act, "
        f"without {METHOD} and {LAYERS}",
        _CONFIG,
        one_of(GRANULARITY, "full"),
    ),
    *(
        _no(
            f"does not go with {flag} {{{flag}}}; remove {flag}",
            _CONFIG,
            one_of(GRANULARITY, "none"),
            given(flag),
        )
        for flag in (METHOD, LAYERS)
    ),
    _no(
        f"does not go with {MODULES} moe; write moe_act, or remove it",
        f"{_CONFIG}; whatever {GRANULARITY} is",
        has(MODULES, "moe"),
    ),
    _no(
        "does not go with moe_shared_expert_overlap; remove one",
        _CONFIG,
        on("moe_shared_expert_overlap"),
    ),
    _no(
        "does not go with mtp_num_layers: those have no packs; remove one",
        "MC fine_grained_callables.py:submodule_mtp_attn_forward: AssertionError",
        given("mtp_num_layers"),
    ),
    _no(
        "needs padding_free; write padding_free: true",
        "MB gpt_model.py:forward makes a mask of paddings, which a plan would lose",
        off("padding_free"),
        off("packing"),
    ),
)
"""``megatron_extra_kwargs: {overlap_moe_expert_parallel_comm: true}``."""
