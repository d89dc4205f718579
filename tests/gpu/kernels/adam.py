"""The chunked Adam step compared with the whole one.

``python3 -m tests.gpu.kernels.adam`` on one GPU with Transformer Engine. Both must produce the same
bits in weights, remainders and moments; prints peak memory and milliseconds of each. A thousand of
the weights have the size of an expert of Qwen3-30B-A3B.
"""

from __future__ import annotations

import json
import time

import torch

from tests.gpu import host

SIZES = (3_000_000, 70_000_000, 200_000_000, 1, 128_000_000, *[768 * 2048] * 1000)
STEPS = 5


def train(*, chunked: bool) -> tuple[list[torch.Tensor], int, float]:
    """Run megatron-core's step with bf16 moments; return all state, the peak and the
    milliseconds."""
    from transformer_engine.pytorch.optimizers import FusedAdam

    if chunked:
        from launchers.training.optimizer import chunked_adam

        chunked_adam.install()
    torch.manual_seed(7)
    weights = [
        torch.nn.Parameter(torch.randn(size, dtype=torch.bfloat16, device="cuda")) for size in SIZES
    ]
    groups = [{"params": weights[:4], "lr": 1e-2}, {"params": weights[4:], "weight_decay": 0.1}]
    adam = FusedAdam(
        groups,
        lr=1e-3,
        master_weights=True,
        use_decoupled_grad=True,
        store_param_remainders=True,
        exp_avg_dtype=torch.bfloat16,
        exp_avg_sq_dtype=torch.bfloat16,
    )
    peak, fastest = 0, float("inf")
    for number in range(STEPS):
        for weight in weights:
            weight.decoupled_grad = torch.randn_like(weight)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        adam.step()
        torch.cuda.synchronize()
        if number:  # the first step creates the state
            fastest = min(fastest, 1e3 * (time.perf_counter() - begun))
            peak = max(peak, torch.cuda.max_memory_allocated() - before)
    assert [group["step"] for group in adam.param_groups] == [STEPS, STEPS]
    states = [adam.state[w][name] for w in weights for name in sorted(adam.state[w])]
    return [w.detach() for w in weights] + states, peak, fastest


def main() -> None:
    """Compare both and print the results."""
    whole, whole_peak, whole_ms = train(chunked=False)
    cut, cut_peak, cut_ms = train(chunked=True)
    same = [torch.equal(one, other) for one, other in zip(whole, cut, strict=True)]
    seen = {
        "tensors": len(same),
        "equal": sum(same),
        "peak_whole": whole_peak,
        "peak": cut_peak,
        "ms_whole": round(whole_ms, 2),
        "ms": round(cut_ms, 2),
    }
    print(json.dumps({**host.about(), "parameters": sum(SIZES), "steps": STEPS, **seen}, indent=1))
    if not all(same):
        raise SystemExit("the chunked step differs")


if __name__ == "__main__":
    main()
