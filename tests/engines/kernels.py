"""Stands for ``transformer_engine_torch`` on CPU: its fused Adam kernels, in torch.

Written from the kernels' contract, not their code: arithmetic in fp32, states updated in place, and
an error for types that the kernel of the release does not take. Laid under upstream's name by
tests/launchers/training/optimizer/test_chunked_adam.py.
"""

from collections.abc import Sequence
from typing import Any

import torch

TAKES_BF16 = True
"""True if two moments in bf16 are accepted, as since 2.13; 2.12 takes fp32 alone."""
CALLS: list[dict[str, Any]] = []
"""Of each call: its number of tensors, their elements, the moments' types."""


class DType:
    kFloat32 = 0
    kFloat8E4M3 = 1


def _note(lists: Sequence[Sequence[Any]]) -> None:
    types = [{t.dtype for t in moments} for moments in lists[2:4]]
    known = [{torch.float32}] + [{torch.bfloat16}] * TAKES_BF16
    if types[0] != types[1] or types[0] not in known:
        raise TypeError(f"the kernel does not take moments of {types}")
    CALLS.append(
        {
            "tensors": len(lists[0]),
            "elements": sum(t.numel() for t in lists[0]),
            "moments": str(lists[2][0].dtype).removeprefix("torch."),
            "places": [t.data_ptr() for t in lists[2]],
        }
    )


def _update(grad: Any, weight: Any, first: Any, second: Any, *numbers: Any) -> Any:
    """Return the new fp32 weight; the moments are updated in place."""
    lr, beta1, beta2, eps, step, mode, bias_correction, decay = numbers
    assert mode == 1, "AdamW alone"
    grad = grad.float()
    one = beta1 * first.float() + (1 - beta1) * grad
    two = beta2 * second.float() + (1 - beta2) * grad * grad
    first.copy_(one)
    second.copy_(two)
    if bias_correction:
        one, two = one / (1 - beta1**step), two / (1 - beta2**step)
    return weight - lr * (one / (two.sqrt() + eps) + decay * weight)


def multi_tensor_adam(_: int, noop: Any, lists: Any, *numbers: Any) -> None:
    """Step weights, or fp32 masters that are then rounded to the weights."""
    _note(lists)
    for tensors in zip(*lists, strict=True):
        weight, master = tensors[1], tensors[-1] if len(tensors) == 5 else tensors[1]
        new = _update(tensors[0], master.float(), tensors[2], tensors[3], *numbers)
        master.copy_(new)
        if master is not weight:
            weight.copy_(new)


def multi_tensor_adam_param_remainder(_: int, noop: Any, lists: Any, *numbers: Any) -> None:
    """Step masters of which bf16 weights hold the upper half and int16 tensors the lower one.

    The weight is the master rounded to nearest, so it is one above the upper half where the lower
    half's first bit is set.
    """
    _note(lists)
    for grad, weight, first, second, rest in zip(*lists, strict=True):
        new = _update(grad, whole(weight, rest), first, second, *numbers)
        bits = new.contiguous().view(torch.int32)
        low = bits.to(torch.int16)
        rest.copy_(low)
        weight.copy_(((bits >> 16) + (low < 0).int()).to(torch.int16).view(torch.bfloat16))


def whole(weight: Any, rest: Any) -> Any:
    """Return the fp32 masters of bf16 weights and their remainders."""
    high = weight.contiguous().view(torch.int16).int() - (rest < 0).int()
    return ((high << 16) | (rest.int() & 0xFFFF)).view(torch.float32)


multi_tensor_adam_fp8 = multi_tensor_adam_capturable = multi_tensor_adam_capturable_master = None
