"""The kernel of ``adapter_sum`` as Triton's interpreter runs it, and compiled for GPUs.

``-m tests.launchers.training.experts.sum_kernel`` with ``TRITON_INTERPRET=1``, or with ``compile``
without it. Prints a line of JSON. The interpreter has no products of bf16: numbers are fp16.
"""

import json
import sys

import torch
import triton

from launchers.config.gpu_models import GROUPED_KERNELS
from launchers.training.experts import adapter_sum

CASES: dict[str, tuple[list[int], int, int, float]] = {
    "experts, some without rows": ([0, 70, 3, 130, 0, 64, 1, 0], 96, 8, 4.0),
    "a width between blocks, a rank of 24": ([5, 300], 264, 24, 3.0),
    "one matrix, few rows": ([10], 64, 8, 1.0),
    "one matrix, a rank of 64": ([2_500], 700, 64, 0.3),
}


def numbers(*shape: int) -> torch.Tensor:
    """Return fp16 whose products sum up exactly in fp32: CPUs add them in different orders."""
    return (torch.randint(-127, 128, shape) / 64).half()


def differing(splits: list[int], width: int, rank: int, scaling: float) -> int:
    """Return how many sums are not upstream's, in place and in a new tensor."""
    ends = torch.tensor(splits).cumsum(0).int()
    b, low = numbers(len(splits), width, rank), numbers(sum(splits), rank)
    outputs = torch.randn(sum(splits), width).half()
    parts = zip(low.split(splits), b, strict=True)
    products = torch.cat([(rows.float() @ each.float().T).half() for rows, each in parts])
    expected = outputs + (products * scaling if scaling != 1 else products)
    side, new = b.transpose(1, 2), torch.empty_like(outputs)
    adapter_sum.add(new, outputs, low, side, ends, scaling)
    adapter_sum.add(outputs, outputs, low, side, ends, scaling)
    return int((new != expected).sum() + (outputs != expected).sum())


def compiled(major: int, experts: int, ranks: int) -> int:
    """Return the bytes of shared memory that a compute capability's program needs."""
    kernel = adapter_sum._add
    types = dict.fromkeys(("sums", "outputs", "low", "side"), "*bf16") | {"ends": "*i32"}
    types |= {"scaling": "fp32"}
    constants = {"scaled": True, "experts": experts, "numbers": experts, "ranks": ranks}
    constants |= {"rows": adapter_sum.ROWS, "columns": adapter_sum.COLUMNS}
    names = kernel.arg_names
    source = triton.compiler.ASTSource(
        kernel,
        {n: "constexpr" if n in constants else types.get(n, "i32") for n in names},
        {(names.index(name),): value for name, value in constants.items()},
    )
    target = triton.backends.compiler.GPUTarget("cuda", major * 10, 32)
    return int(triton.compile(source, target=target).metadata.shared)


if __name__ == "__main__":
    torch.manual_seed(3)
    if sys.argv[1:] == ["compile"]:
        cases = [(128, 16), (1, adapter_sum.WIDEST)]
        print(json.dumps([compiled(n, *case) for n in GROUPED_KERNELS for case in cases]))
    else:
        print(json.dumps({name: differing(*case) for name, case in CASES.items()}))
