"""Packs of equal size, a precondition of megatron-core's ``allgather`` token dispatcher.

``allgather`` sends each token once to every rank of the expert-parallel group and needs as many
tokens from each rank; ``alltoall`` sends a copy of a token to each of its top-k experts.
"""

from collections.abc import Mapping

from launchers.config.recipe import Recipe
from launchers.exits import Exit, LaunchError

DISPATCHER = "moe_token_dispatcher_type"
NAME = "allgather"
KNOWN = (
    "input_ids", "labels", "loss_scale", "position_ids", "token_type_ids", "seq_lens",
    "num_samples", "channel", "margin",
)  # fmt: skip
"""Keys that a batch of texts may have."""


def wanted(recipe: Recipe) -> bool:
    """Return whether a recipe packs rows and gathers their tokens.

    >>> wanted(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
    ...               args={"packing": "true", "moe_token_dispatcher_type": "allgather"}))
    True
    """
    return recipe.is_on("packing") and recipe.arg(DISPATCHER, "alltoall") == NAME


def has_packs(recipe: Recipe) -> bool:
    """Return whether rows are packed before the first step: a stream is packed while training."""
    return recipe.is_on("packing") and not recipe.is_on("streaming")


def has_no_padding(recipe: Recipe) -> bool:
    """Return whether sequences are concatenated without padding."""
    return recipe.is_on("packing") or recipe.is_on("padding_free", "true")


def has_unread_losses(recipe: Recipe) -> bool:
    """Return whether nothing reads the losses of tokens without a label: DPO without padding."""
    return recipe.task == "rlhf" and recipe.preference == "dpo" and has_no_padding(recipe)


def room(*, packs: int, length: int, multiple: int | None) -> int:
    """Return the tokens of each microbatch.

    ``multiple``: of which tensor parallelism or 8-bit products need one; None for none.

    >>> room(packs=1, length=16384, multiple=None), room(packs=2, length=1001, multiple=16)
    (16384, 2016)
    """
    step = multiple or 1
    return -(-packs * length // step) * step


def judge(batch: Mapping[str, object], real: int, padded: int, space: int) -> None:
    """Verify that a microbatch holds only texts and is as long as all others.

    ``space``: tokens of every microbatch, as ``room`` returns them.

    Raises:
        LaunchError: CONFIG when it holds more than texts; DATA when a pair is longer than a pack.
    """
    if others := sorted(name for name in batch if name not in KNOWN and batch[name] is not None):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.{DISPATCHER}: {NAME} is untested with a batch that contains "
            f"{', '.join(others)}",
            "use alltoall",
            id="gather-batch",
        )
    if padded != space:
        raise LaunchError(
            Exit.DATA,
            f"recipe.args.packing_length: a microbatch has {real} tokens instead of {space}: "
            f"a row is longer than a pack, but {DISPATCHER} {NAME} requires equal sizes",
            "raise packing_length, or use alltoall",
            id="gather-long-row",
        )
