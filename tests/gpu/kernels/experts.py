"""The experts' products of Transformer Engine and megatron-core compared with ours.

``python3 -m tests.gpu.kernels.experts`` on one GPU, half a minute, with 16,384 tokens of 8 experts
each: two layers of 32 experts of Qwen3-30B-A3B (one GPU's share with EP4), 128 frozen experts, and
an adapter of rank 8; also with experts that receive no row or one. Prints the error of each
gradient against fp32 products per expert, and the milliseconds of the host and of the GPU for a
forward and a backward pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from launchers.preflight.gang_probes import free_port
from tests.gpu import host

TOKENS = 16384 * 8
CASES = {
    "fc1": (32, 2048, 1536),
    "fc2": (32, 768, 2048),
    "frozen fc1": (128, 2048, 1536),
    "frozen fc2": (128, 768, 2048),
    "fc1.lora_A": (128, 2048, 8),
    "fc1.lora_B": (128, 8, 1536),
}
"""Number of experts, and input and output width of a product; ``frozen`` ones are not trained."""
ROUNDS = 20
BOUND = 0.01
"""Bound of the relative error in the Frobenius norm; bf16 products have 0.002 to 0.005."""


def layer(experts: int, width_in: int, width_out: int, *, trains: bool) -> Any:
    """Return a layer of experts with bf16 weights and gradient buffers as under DDP."""
    from megatron.core.extensions.transformer_engine import TEGroupedLinear
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(
        num_layers=1,
        hidden_size=2048,
        num_attention_heads=32,
        num_moe_experts=experts,
        add_bias_linear=False,
        bf16=True,
        params_dtype=torch.bfloat16,
        gradient_accumulation_fusion=False,
    )
    module = TEGroupedLinear(
        experts,
        width_in,
        width_out,
        parallel_mode=None,
        config=config,
        init_method=lambda weight: torch.nn.init.normal_(weight, 0, 0.02),
        bias=False,
        skip_bias_add=False,
        is_expert=True,
    )
    module.requires_grad_(trains)
    for weight in module.parameters():
        weight.main_grad = torch.zeros_like(weight)
    return module


def hooked(module: Any) -> list[Any]:
    """Accumulate each weight's gradient as megatron-core's DDP does; return references to keep."""
    kept = []

    def hook(weight: Any) -> Any:
        def add(*_: Any) -> None:
            weight.main_grad.add_(weight.grad.data)
            weight.grad = None

        return add

    for weight in module.parameters():
        node = weight.expand_as(weight).grad_fn.next_functions[0][0]
        node.register_hook(hook(weight))
        kept.append(node)
    return kept


def splits(kind: str, experts: int) -> list[int]:
    """Return the number of rows of each expert."""
    if kind == "even":
        return [TOKENS // experts] * experts
    parts = torch.rand(experts, generator=torch.Generator().manual_seed(7))
    parts[::5] = 0
    counts = (parts / parts.sum() * (TOKENS - 3)).int().tolist()
    counts[5], counts[10] = 1, 2
    return [int(count) for count in counts]


def passes(module: Any, rows: torch.Tensor, grad: torch.Tensor, counts: list[int]) -> Any:
    """Run a forward and a backward pass; return the output and the rows' gradient."""
    rows = rows.detach().requires_grad_()
    out = module(rows, counts)[0]
    out.backward(grad)
    return out.detach(), rows.grad


def timed(module: Any, rows: torch.Tensor, grad: torch.Tensor, counts: list[int]) -> dict[str, Any]:
    """Return the milliseconds of a pass: of the host to launch it, and until its end."""
    hosts, all_of = [], []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        passes(module, rows, grad, counts)
        hosts.append(time.perf_counter() - begun)
        torch.cuda.synchronize()
        all_of.append(time.perf_counter() - begun)
    host, whole = (round(1e3 * sorted(each)[ROUNDS // 2], 3) for each in (hosts, all_of))
    return {"host_ms": host, "ms": whole}


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the relative error in the Frobenius norm."""
    return float((found.detach().float() - exact).norm() / exact.norm().clamp(min=1e-20))


def judged(
    module: Any, rows: torch.Tensor, grad: torch.Tensor, counts: list[int]
) -> dict[str, Any]:
    """Return the worst errors of one pass from zeroed buffers, and its times."""
    weights = list(module.parameters())
    for weight in weights:
        weight.main_grad.zero_()
    out, below = passes(module, rows, grad, counts)
    inputs, grads = rows.split(counts), grad.split(counts)
    exact = {
        "out": [p.float() @ w.float().T for w, p in zip(weights, inputs, strict=True)],
        "rows": [g.float() @ w.float() for w, g in zip(weights, grads, strict=True)],
    }
    seen = {
        "out": error(out, torch.cat(exact["out"])),
        "rows": error(below, torch.cat(exact["rows"])),
        **(trained(weights, inputs, grads) if weights[0].requires_grad else {}),
    }
    return {**seen, **timed(module, rows, grad, counts)}


def trained(
    weights: Sequence[Any], rows: Sequence[torch.Tensor], grads: Sequence[torch.Tensor]
) -> dict[str, float]:
    """Return the worst error of the weights' gradients, and the largest of experts without rows."""
    each = list(zip(weights, rows, grads, strict=True))
    empty = [float(w.main_grad.float().abs().max()) for w, p, _ in each if not len(p)]
    return {
        "weights": max(error(w.main_grad, g.float().T @ p.float()) for w, p, g in each),
        "empty": max(empty, default=0.0),
    }


def main() -> None:
    """Compare both implementations and print the results."""
    from megatron.core import parallel_state, tensor_parallel

    address = f"tcp://127.0.0.1:{free_port()}"
    dist.init_process_group("nccl", init_method=address, rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    tensor_parallel.model_parallel_cuda_manual_seed(7)
    from launchers.training.experts import grouped_product
    from launchers.training.experts.grouped_weights import prepared

    grouped_product.install()

    seen: dict[str, Any] = {}
    for name, (experts, width_in, width_out) in CASES.items():
        for kind in ("even", "uneven"):
            counts = splits(kind, experts)
            rows = torch.randn(sum(counts), width_in, device="cuda").bfloat16()
            grad = torch.randn(sum(counts), width_out, device="cuda").bfloat16()
            module = layer(experts, width_in, width_out, trains=not name.startswith("frozen"))
            kept = hooked(module) if not name.startswith("frozen") else []
            before = judged(module, rows, grad, counts)
            owner = SimpleNamespace(
                param_to_bucket_group=dict.fromkeys(module.parameters()),
                ddp_config=SimpleNamespace(overlap_grad_reduce=False),
            )
            vars(module)["one_product"] = prepared(name, module, owner)
            assert vars(module)["one_product"], "the feature does not support this layer"
            after = judged(module, rows, grad, counts)
            seen[f"{name} {kind}"] = {"upstream": before, "ours": after}
            del kept
    print(json.dumps({**host.about(), "rows": TOKENS, "layers": seen}, indent=1))
    dist.destroy_process_group()
    runs = [each["ours"] for each in seen.values()]
    worst = max(run.get(key, 0.0) for run in runs for key in ("out", "rows", "weights"))
    if not worst < BOUND or any(run.get("empty") for run in runs):
        raise SystemExit(f"an error of {worst}, or gradients of experts without tokens")


if __name__ == "__main__":
    main()
