"""Buffers, copies and readings on the GPU, or on the CPU if there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

GPU = torch.cuda.is_available()


def host_buffer(size: int) -> torch.Tensor:
    """Return zeros in pinned CPU memory, which can be copied to the GPU asynchronously."""
    return torch.zeros(size, dtype=torch.float64, pin_memory=GPU)


def device_buffer(size: int) -> torch.Tensor:
    """Return zeros on this rank's GPU."""
    device = torch.device("cuda", torch.cuda.current_device()) if GPU else torch.device("cpu")
    return torch.zeros(size, dtype=torch.float64, device=device)


def new_event() -> Any:
    """Return a CUDA event; None without a GPU."""
    return torch.cuda.Event() if GPU else None


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """Start to copy a tensor to the CPU; the copy is complete once the next event has passed."""
    host = torch.empty_like(tensor, device="cpu", pin_memory=GPU)
    return host.copy_(tensor, non_blocking=True)


def name() -> str:
    """Return the GPU's name; empty without a GPU."""
    return torch.cuda.get_device_name() if GPU else ""


def uuid() -> str:
    """Return the id by which the driver knows the GPU; empty without one, or before torch 2.5."""
    return str(getattr(torch.cuda.get_device_properties(), "uuid", "")) if GPU else ""


def peaks() -> tuple[float, float]:
    """Return the peak bytes allocated and reserved since the process began."""
    if not GPU:
        return 0.0, 0.0
    stats = torch.cuda.memory_stats_as_nested_dict()
    allocated, reserved = (
        stats[name]["all"]["peak"] for name in ("allocated_bytes", "reserved_bytes")
    )
    return float(allocated), float(reserved)


def means(metrics: Iterable[Mapping[str, Any]]) -> tuple[list[str], torch.Tensor]:
    """Return the names and the means of what the microbatches report, on their device.

    A value of two numbers is a sum and a count (ms-swift ``_aggregated_metrics``).
    """
    found: dict[str, list[torch.Tensor]] = {}
    for each in metrics or ():
        for name, value in each.items():
            if value is not None:
                found.setdefault(name, []).append(value.detach())
    averages = [_mean(torch.stack(values).double()) for values in found.values()]
    return list(found), torch.stack(averages) if averages else torch.zeros(0)


def _mean(values: torch.Tensor) -> torch.Tensor:
    if values[0].numel() == 2:
        whole = values.reshape(-1, 2).sum(dim=0)
        return whole[0] / whole[1]
    return values.mean()


def learning_rate(optimizer: Any) -> float | None:
    """Return the learning rate of the first group that has parameters, as ms-swift logs it."""
    groups = (group for group in optimizer.param_groups if group["params"])
    return next((float(group["lr"]) for group in groups), None)
