"""Decide whether the policy's log-probabilities are still those of the reference."""

from pathlib import Path
from typing import Any

KEY = "reference_logps"
"""Key of a batch: the reference's log-probabilities, [2, pairs], chosen and rejected."""


def refusals(args: object) -> list[str]:
    """Return why the log-probabilities cannot be precomputed, one sentence for each reason.

    The chart and the launcher refuse the same by ``rules/reference.py``; this is for runs that
    neither of them has started.
    """
    wanted: tuple[tuple[str, tuple[object, ...], str], ...] = (
        ("rlhf_type", ("dpo",), "only DPO reads them"),
        (
            "tuner_type",
            ("full",),
            "an adapter's reference is the model without it, at no extra memory",
        ),
        ("streaming", (False, None), "not all pairs are known before the first step"),
        ("context_parallel_size", (1, None), "untested with a sequence divided among GPUs"),
        (
            "virtual_pipeline_model_parallel_size",
            (1, None),
            "untested with virtual pipeline stages",
        ),
        ("task_type", ("causal_lm", None), "the model must return log-probabilities"),
    )
    given = ((name, getattr(args, name, None), allowed, why) for name, allowed, why in wanted)
    found = [
        f"{name}={value}: {why}" for name, value, allowed, why in given if value not in allowed
    ]
    if getattr(getattr(args, "megatron_model_meta", None), "is_multimodal", False):
        found.append("a multimodal model: a pair's id is made of its tokens only")
    return found


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
