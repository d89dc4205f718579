"""Rules of tokens that are gathered for the experts; sources as in ``rules/parallelism.py``.

What they protect is said in ``training/packs/equal_packs.py``.
"""

from __future__ import annotations

from launchers.flags.equal_packs import DISPATCHER, NAME
from launchers.rules.condition import When, given, missing, none_of, off, on, one_of, over
from launchers.rules.engine import Conflict, Order, Rule
from launchers.rules.facts import TASK

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
