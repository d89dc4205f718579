"""Packs of equal size, which let the experts' tokens be gathered instead of sent around.

megatron-core's dispatcher ``allgather`` sends each token once to each rank of the experts' group,
and takes as many from each; ``alltoall`` sends a copy for each of its top-k experts.
"""

from __future__ import annotations

from collections.abc import Mapping

from launchers.config.recipe import Recipe

DISPATCHER = "moe_token_dispatcher_type"
NAME = "allgather"
KNOWN = (
    *("input_ids", "labels", "loss_scale", "position_ids", "token_type_ids"),
    *("seq_lens", "num_samples", "channel", "margin"),
)
"""What of a batch may be there: all of it belongs to texts."""


class PacksConfigError(Exception):
    """What the recipe does not allow: ends a run with CONFIG (``system/failure_rules.py``)."""


class PacksDataError(Exception):
    """A pack that holds more than it may: ends a run with DATA (``system/failure_rules.py``)."""


def wanted(recipe: Recipe) -> bool:
    """Tell whether a recipe gathers the tokens of packs.

    >>> wanted(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
    ...               args={"packing": "true", "moe_token_dispatcher_type": "allgather"}))
    True
    """
    return recipe.is_on("packing") and recipe.arg(DISPATCHER, "alltoall") == NAME


def room(*, packs: int, length: int, multiple: int | None) -> int:
    """Return the tokens of each microbatch.

    Args:
        packs: of a microbatch.
        length: tokens that a pack may have.
        multiple: of what tensor parallelism or 8-bit products need; None: of anything.

    >>> room(packs=1, length=16384, multiple=None), room(packs=2, length=1001, multiple=16)
    (16384, 2016)
    """
    step = multiple or 1
    return -(-packs * length // step) * step


def judge(batch: Mapping[str, object], real: int, padded: int, space: int) -> None:
    """Make sure that a microbatch is one of texts, as long as all others.

    Args:
        batch: as ms-swift's collator made it.
        real: its tokens without padding.
        padded: its tokens with padding.
        space: what ``room`` says.

    Raises:
        PacksConfigError: it holds more than texts.
        PacksDataError: a pair is longer than a pack.
    """
    if others := sorted(name for name in batch if name not in KNOWN and batch[name] is not None):
        raise PacksConfigError(
            f"recipe.args.{DISPATCHER}: {NAME} was not tried with a batch that holds "
            f"{', '.join(others)}; write alltoall"
        )
    if padded != space:
        raise PacksDataError(
            f"recipe.args.packing_length: a microbatch has {real} tokens and the others {space}: "
            f"a row is longer than a pack, and {DISPATCHER} {NAME} needs equal ones; raise "
            "packing_length, or write alltoall"
        )
