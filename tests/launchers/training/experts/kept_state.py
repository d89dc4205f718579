"""What ranks have of trained weights and of the optimizer's state, by upstream's names."""

from typing import Any

import torch
import torch.distributed as dist


def kept_weights(model: Any) -> dict[str, torch.Tensor]:
    """Return copies of the trained weights by upstream's names."""
    found: dict[str, torch.Tensor] = {}
    for name, weight in model.module.named_parameters():
        if weight.requires_grad:
            found |= split(name, weight.detach().clone())
    return found


def kept(optimizer: Any, model: Any) -> dict[str, torch.Tensor]:
    """Return adapters and what this rank has of the optimizer's state, by expert's name."""
    found: dict[str, torch.Tensor] = {}
    names = {weight: name for name, weight in model.module.named_parameters()}
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        for weight in getattr(part, "model_param_gbuf_map", ()):
            ranges = part._get_model_param_range_map(weight)["param"]
            for name, value in part._get_main_param_and_optimizer_states(weight).items():
                whole = torch.full((weight.numel(),), float("nan"))
                whole[ranges.start : ranges.end] = value
                found |= split(f"{name} of {names[weight]}", whole.view(weight.shape))
    found |= kept_weights(model)
    # the ranks have other parts of both forms
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    return merged(every, int(model.config.expert_model_parallel_size))


def merged(every: list[dict[str, torch.Tensor]], ep: int) -> dict[str, torch.Tensor]:
    """Return the states of all ranks: of two parts the one that is there."""
    found: dict[str, torch.Tensor] = {}
    for rank, own in enumerate(every):
        for name, value in own.items():
            key = name if ep == 1 or name.endswith("first") else f"{name} on {rank}"
            kept = found.get(key, value)
            found[key] = torch.where(kept.isnan(), value, kept)
    assert not any(value.isnan().any() for value in found.values())
    return found


def split(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a stack by upstream's names."""
    parts = enumerate(value) if value.dim() == 3 else ()
    return {f"{name}{n}": each for n, each in parts} or {name: value}


def equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
