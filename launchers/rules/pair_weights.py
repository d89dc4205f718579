"""Rules of equal pair weights (``recipe.pairWeights``).

Sources are abbreviated as in ``rules/parallelism.py``.
"""

from __future__ import annotations

from launchers.config.recipe import PAIR_WEIGHTS
from launchers.rules.engine import RLHF, Conflict, Rule, When, given, has, off, on, one_of, over


def _equal_conflict(id: str, says: str, source: str, *when: When) -> Conflict:
    return Conflict(
        id=id,
        flag=PAIR_WEIGHTS,
        when=(
            one_of(PAIR_WEIGHTS, "equal"),
            RLHF,
            one_of("rlhf_type", "dpo"),
            on("packing"),
            *when,
        ),
        says=f"equal {says}; use pack",
        source=source,
    )


WEIGHTS: tuple[Rule, ...] = tuple(
    _equal_conflict(
        "pair-weights-order",
        f"requires that the packs of a step are known before it, which {flag} prevents",
        "training/packs/packing.py deals packs that ms-swift shuffles as a whole",
        condition,
    )
    for flag, condition in (
        ("streaming: true", on("streaming")),
        ("data_sharding: true", on("data_sharding")),
        ("train_dataloader_shuffle: false", off("train_dataloader_shuffle")),
    )
)
"""Rules of the Megatron backend."""
WEIGHTS_ELSEWHERE: tuple[Rule, ...] = (
    *(
        _equal_conflict(
            "pair-weights-loss",
            f"cannot be combined with loss_type {loss}, which compares the pairs of a pack with "
            "each other",
            "SW rlhf_trainers/dpo_trainer.py:dpo_loss sorts them, or takes their running mean",
            has("loss_type", loss),
        )
        for loss in ("aot", "aot_unpaired", "bco_pair")
    ),
    _equal_conflict(
        "pair-weights-ld-alpha",
        "cannot be combined with ld_alpha and rpo_alpha: the log-probability of an answer then "
        "does not give its likelihood",
        "SW rlhf_trainers/dpo_trainer.py:concatenated_forward scales the end of the longer answer",
        given("ld_alpha"),
        given("rpo_alpha"),
    ),
    _equal_conflict(
        "pair-weights-sequence-parallel",
        "is untested with sequence_parallel_size {sequence_parallel_size}",
        "SW rlhf_mixin.py:get_per_token_logps gathers the parts of a sequence",
        over("sequence_parallel_size", "1"),
    ),
)
"""Rules of the transformers backend."""
