"""Decide whether the policy's log-probabilities are still those of the reference."""

from pathlib import Path
from typing import Any

KEY = "reference_logps"
"""Key of a batch: the reference's log-probabilities, [2, pairs], chosen and rejected."""


def original(args: Any) -> Path:
    """Return the model that a run began with.

    The launcher pins ``ref_model`` to it; after a resume ``model`` may be a checkpoint
    (``flags/command_line.py``).
    """
    return Path(str(getattr(args, "ref_model", None) or args.model))


def policy_is_reference(args: Any, iteration: int) -> bool:
    """Return whether the policy's weights are still the reference's.

    ``iteration``: optimizer steps done, as the loaded checkpoint says.
    """

    def mcore(name: str) -> Path | None:
        given = getattr(args, name, None)
        return Path(str(given)).resolve() if given else None

    policy = Path(str(args.model)).resolve(), mcore("mcore_model")
    return iteration == 0 and policy == (original(args).resolve(), mcore("mcore_ref_model"))
