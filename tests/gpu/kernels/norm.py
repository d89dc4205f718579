"""Gradient norm and clipping of megatron-core compared with ours.

``python3 -m tests.gpu.kernels.norm`` on one GPU with Transformer Engine and megatron-core: 3,000
gradients in bf16, each with the size of an expert of Qwen3-30B-A3B. Prints the relative error
against fp64 and the milliseconds of both; ours must have an error below 1e-4 and clip to the same
bits.
"""

from __future__ import annotations

import json
import time
from typing import Any

import torch
import torch.distributed as dist

from launchers.preflight.gang_probes import free_port
from tests.gpu import host

WEIGHTS, SIZE = 3000, 768 * 2048


def measure(grads: list[torch.Tensor]) -> tuple[float, list[torch.Tensor], float]:
    """Return the norm, the clipped gradients and the milliseconds of the second of two rounds."""
    from megatron.core.optimizer import clip_grads

    norm, seconds, clipped = 0.0, 0.0, grads
    for _ in range(2):
        clipped = [grad.clone() for grad in grads]
        weights: list[Any] = [torch.nn.Parameter(torch.empty(0)) for _ in clipped]
        for weight, grad in zip(weights, clipped, strict=True):
            weight.decoupled_grad = grad
        torch.cuda.synchronize()
        begun = time.perf_counter()
        norm = float(clip_grads.get_grad_norm_fp32(clipped, 2, dist.group.WORLD))
        clip_grads.clip_grad_by_total_norm_fp32(weights, 1.0, norm, use_decoupled_grad=True)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
    return norm, clipped, 1e3 * seconds


def main() -> None:
    """Compare both and print the results."""
    address = f"tcp://127.0.0.1:{free_port()}"
    dist.init_process_group("nccl", init_method=address, rank=0, world_size=1)
    torch.manual_seed(7)
    grads = [torch.randn(SIZE, dtype=torch.bfloat16, device="cuda") for _ in range(WEIGHTS)]
    exact = float(sum(grad.double().square().sum() for grad in grads)) ** 0.5
    before, _, before_ms = measure(grads)
    from launchers.training.optimizer import fused_norm

    fused_norm.install()
    after, clipped, after_ms = measure(grads)
    scale = 1.0 / (after + 1e-6)
    same = all(
        torch.equal(c, (g * scale).bfloat16()) for g, c in zip(grads[:50], clipped, strict=False)
    )
    seen = {
        "error_before": before / exact - 1,
        "error": after / exact - 1,
        "ms_before": round(before_ms, 2),
        "ms": round(after_ms, 2),
        "clipped_alike": same,
    }
    print(json.dumps({**host.about(), "weights": WEIGHTS, "elements": SIZE, **seen}, indent=1))
    dist.destroy_process_group()
    if abs(seen["error"]) > 1e-4 or not same:
        raise SystemExit("the fused norm or its clipping is wrong")


if __name__ == "__main__":
    main()
