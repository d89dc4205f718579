"""Check the gradients for NaN and Inf once a step, not once a bucket.

ms-swift always lets megatron-core check each bucket of gradients before it is reduced
(``swift/megatron/utils/megatron_lm_utils.py: wrap_model``), which synchronises host and GPU twice a
bucket (``megatron/core/distributed/param_and_grad_buffer.py: check_grads``): some 400 times in the
last backward pass of each step, and each time the GPU runs out of work. Here the buckets' norms
stay on the GPU. A value that is not finite makes the step's total norm not finite, which the host
reads anyway before weights change; only then are the buckets' norms read, and the error names the
rank, the step and the rows that the rank has read. It is a user error: upstream's ends in a restart
that reads the same rows.

Since megatron-core 0.19 the weights of ``mtp_detach_heads`` are not part of the total norm
(``optimizer.py: get_grads_for_grad_norm``), and their own is computed only if gradients are
clipped: their buckets keep upstream's check.
"""

from __future__ import annotations

import importlib
import math
import time
from types import ModuleType
from typing import Any

import torch
from megatron.core.distributed.param_and_grad_buffer import _ParamAndGradBucketGroup
from megatron.core.optimizer import optimizer
from megatron.core.rerun_state_machine import RerunMode, get_rerun_state_machine

from launchers.exits import Exit, FailureClass, LaunchError
from launchers.training.collect import batch_rows

GRACE_SECONDS = 5.0
"""Time that a rank with finite gradients waits, so that the rank with the fault ends first."""
_OWN_NORM = "grad_norm_group"
"""Attribute of weights that the total norm leaves out (megatron-core 0.19)."""
_check, _norm = _ParamAndGradBucketGroup.check_grads, optimizer.get_grad_norm_fp32
_norms: dict[tuple[int, int], torch.Tensor] = {}
"""Each bucket's norm in this step, by the identity of its group and its number there."""


def check_grads(self: Any, check_for_nan_or_inf: bool, check_for_large: bool) -> None:
    """Keep the norms of a group's buckets for later; leave every other check to upstream."""
    if (
        check_for_large
        or get_rerun_state_machine().mode != RerunMode.DISABLED
        or any(hasattr(weight, _OWN_NORM) for weight in self.params)
    ):
        _check(self, check_for_nan_or_inf, check_for_large)
        return
    for number, bucket in enumerate(self.buckets):
        _norms[id(self), number] = bucket.grad_data.norm(p=2)


def get_grad_norm_fp32(*given: Any, **named: Any) -> Any:
    """Return upstream's norm of all gradients.

    Raises:
        LaunchError: DATA, the norm is not finite.
    """
    norm = _norm(*given, **named)
    if not math.isfinite(norm):
        refuse(float(norm))
    return norm


def refuse(total: float) -> None:
    """End this rank; ranks whose own gradients are not finite end first.

    Raises:
        LaunchError: DATA, always; it names the bucket, or says that another rank has it.
    """
    rank = torch.distributed.get_rank()
    for (_, number), norm in _norms.items():
        if not math.isfinite(float(norm)):
            raise batch_rows.error(rank, f"the gradients of bucket {number}", float(norm))
    time.sleep(GRACE_SECONDS)
    raise LaunchError(
        Exit.DATA,
        f"the norm of all gradients is {total} at step {batch_rows.CURRENT.step}, but those of "
        f"rank {rank} are finite",
        "look for a rank whose log names rows; without one the sum of all has overflowed: lower "
        "the learning rate",
        id="value-not-finite-elsewhere",
        failure_class=FailureClass.MODEL,
    )


def install() -> None:
    """Replace the check of a bucket, and the norm of a step in all modules that compute it."""
    _ParamAndGradBucketGroup.check_grads = check_grads
    for module in _norm_modules():
        module.get_grad_norm_fp32 = get_grad_norm_fp32  # type: ignore[attr-defined]


def _norm_modules() -> list[ModuleType]:
    """Return the modules of optimizers that import the norm under a name of their own.

    ``dist_muon`` is ``layer_wise_optimizer.py: LayerWiseDistributedOptimizer.get_grad_norm``
    (megatron-core 0.16.1 to 0.18.0); earlier releases do not have it.
    """
    found: list[ModuleType] = [optimizer]
    try:
        found.append(importlib.import_module("megatron.core.optimizer.layer_wise_optimizer"))
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("megatron.core.optimizer"):
            raise
    return found
