"""Steps of FusedAdam with and without our patch on CPU; run by test_chunked_adam.py.

Each case is a way to keep the optimizer's state. ``python -m tests.engines.steps FOLDER ...``
prints as JSON, for each folder with a release's source and stand-ins, what the two ways left and
what the kernels were given; if the patch is refused there, the error.
"""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch

from launchers.exits import LaunchError
from launchers.proof.on_cpu import OnCpu

LOADING, PATCH = "launchers.training.loading", "launchers.training.optimizer.chunked_adam"
INSTALLED = "launchers.training.installed"
SIZES = ((3,), (5, 4), (2, 2, 2), (4,), (30,), (1,), (7,), (3, 2), (2,), (64,), (6, 6))
FIRST, IDLE = 5, 2
"""Weights of the first group; the one that has no gradient."""
STEPS, LIMIT, TENSORS = 5, 40, 3
BETAS, EPS, LR, DECAY = (0.9, 0.95), 1e-8, 1e-2, 0.1
BF16, FP32, FP16 = torch.bfloat16, torch.float32, torch.float16
NARROW = {"exp_avg_dtype": BF16, "exp_avg_sq_dtype": BF16}
CASES: dict[str, dict[str, Any]] = {
    "bf16": {**NARROW, "store_param_remainders": True},
    "bf16-master": NARROW,
    "bf16-weights": {**NARROW, "master_weights": False},
    "first-bf16": {"exp_avg_dtype": BF16, "store_param_remainders": True},
    "second-bf16": {"exp_avg_sq_dtype": BF16},
    "fp16": {"exp_avg_dtype": FP16, "exp_avg_sq_dtype": FP16},
    "fp32": {"store_param_remainders": True},
    "fp32-master": {},
}


def train(optimizer: Any, options: dict[str, Any]) -> tuple[list[Any], list[Any], list[int], Any]:
    """Return all state, the masters, each group's step and the optimizer, after STEPS steps."""
    torch.manual_seed(7)
    given = {"master_weights": True, "use_decoupled_grad": True, **options}
    dtype = BF16 if given["master_weights"] else FP32
    weights = [torch.nn.Parameter(torch.randn(size).to(dtype)) for size in SIZES]
    groups: list[dict[str, Any]] = [
        {"params": weights[:FIRST], "lr": LR},
        {"params": []},  # a rank may have no weight of a group
        {"params": weights[FIRST:], "weight_decay": DECAY},
    ]
    adam = optimizer(groups, lr=LR / 3, betas=BETAS, eps=EPS, **given)
    for _ in range(STEPS):
        for number, weight in enumerate(weights):
            grad = torch.randn(weight.shape).to(BF16)
            weight.decoupled_grad = None if number == IDLE else grad  # of a module that was not run
        adam.step()
    state = [adam.state[w][name] for w in weights for name in sorted(adam.state[w])]
    masters = [master(adam, weight) for weight in weights]
    return [w.detach() for w in weights] + state, masters, [g.get("step", 0) for g in groups], adam


def master(adam: Any, weight: Any) -> Any:
    """Return a weight in the precision in which it is stepped."""
    import transformer_engine_torch as kernels

    kept = adam.state[weight].get("master_param", weight.detach())
    return kernels.whole(weight.detach(), kept) if kept.dtype == torch.int16 else kept.clone()


def exact(options: dict[str, Any]) -> list[Any]:
    """Return the masters after STEPS steps of AdamW in fp64, moments rounded as they are kept."""
    torch.manual_seed(7)
    kept = [options.get(name, FP32) for name in ("exp_avg_dtype", "exp_avg_sq_dtype")]
    dtype = BF16 if options.get("master_weights", True) else FP32
    weights = [torch.randn(size).to(dtype).double() for size in SIZES]
    moments = [[torch.zeros_like(w), torch.zeros_like(w)] for w in weights]
    for step in range(1, STEPS + 1):
        for number, weight in enumerate(weights):
            grad = torch.randn(weight.shape).to(BF16).double()
            if number == IDLE:
                continue
            one, two = moments[number]
            one = BETAS[0] * one + (1 - BETAS[0]) * grad
            two = BETAS[1] * two + (1 - BETAS[1]) * grad**2
            moments[number] = [m.to(t).double() for m, t in zip((one, two), kept, strict=True)]
            update = (one / (1 - BETAS[0] ** step)) / ((two / (1 - BETAS[1] ** step)).sqrt() + EPS)
            lr, decay = (LR, 0.0) if number < FIRST else (LR / 3, DECAY)
            weight -= lr * (update + decay * weight)
    return weights


def release(version: str) -> Any:
    """Run all cases without the patch, then with it; return the error if it is refused."""
    import transformer_engine_torch as kernels
    from transformer_engine.pytorch.optimizers import FusedAdam

    kernels.TAKES_BF16 = version != "2.12.0"
    before = {name: train(FusedAdam, options)[:3] for name, options in CASES.items()}
    try:
        importlib.import_module(LOADING).install("chunked_adam")
    except LaunchError as error:
        return [error.code.name, str(error)]
    patch = importlib.import_module(PATCH)
    vars(patch).update(CHUNK=LIMIT, TENSORS=TENSORS)
    found: dict[str, Any] = {}
    for name, options in CASES.items():
        kernels.CALLS.clear()
        whole, masters, steps, adam = train(FusedAdam, options)
        places = {t.data_ptr() for state in adam.state.values() for t in state.values()}
        pairs = list(zip(masters, exact(options), strict=True))
        found[name] = {
            "same": all(map(torch.equal, whole, before[name][0])),
            "tensors": len(whole),
            "steps": [steps, before[name][2]],
            "off": max(float((a.double() - b).abs().max()) for a, b in pairs),
            "left": sorted({"get_unscaled_state", "_apply_scale", "step"} & set(vars(adam))),
            "calls": [
                {**call, "places": all(place in places for place in call["places"])}
                for call in kernels.CALLS
            ],
        }
    return found


def main(folders: list[str]) -> None:
    found = {}
    for folder in folders:
        sys.path.insert(0, folder)
        found[Path(folder).name] = release(Path(folder).name)
        sys.path.remove(folder)
        for name in list(sys.modules):
            if name.startswith("transformer_engine") or name in (PATCH, LOADING, INSTALLED):
                del sys.modules[name]
        vars(sys.modules["launchers.training.optimizer"]).pop("chunked_adam", None)
    print(json.dumps(found))


if __name__ == "__main__":
    # half of the time to import torch, for a class that nothing here is an instance of
    tensors: Any = types.ModuleType("torch.distributed._tensor")
    tensors.DTensor = type("DTensor", (), {})
    sys.modules[tensors.__name__] = tensors
    with OnCpu():
        main(sys.argv[1:])
