"""Balancing loss and counts of packs with and without filler, on two CPU ranks.

Model, experts, router, dispatcher, schedule and gradients' buffers are the real ones, by
``packs/gather_edge.py``. The reference computation is upstream's own on packs without filler.
"""

import importlib
import os
from typing import Any

import torch
import torch.distributed as dist

from launchers.upstream import patches
from tests.launchers.training import edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import (
    SPACE,
    Batches,
    collated,
    collators,
    furthest,
)

COEFFICIENT = 0.1
FULL: dict[str, Any] = {"recompute_granularity": "full", "recompute_num_layers": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "stored": {},
    "recomputed": {**FULL, "recompute_method": "uniform"},
    "partly recomputed": {**FULL, "recompute_method": "block"},
    "with a z-loss": {"moe_z_loss_coeff": 0.1},
    "by sequence": {"moe_router_load_balancing_type": "seq_aux_loss"},
}


def again(function: Any, _: bool, *given: Any) -> Any:
    """Compute a layer again in the backward pass, as megatron-core does, without a GPU's states."""
    whole = importlib.import_module("torch.utils.checkpoint").checkpoint
    return whole(function, *given, use_reentrant=True, preserve_rng_state=False)


def clear_tracker() -> None:
    """Forget the balancing losses of earlier steps, with the names of those that had others."""
    name = "get_moe_metrics_tracker"  # since 0.18; a dictionary of its own before
    tracker = getattr(utils, name, utils.get_moe_layer_wise_logging_tracker)()
    getattr(tracker, "metrics", tracker).clear()


def step(batches: Batches, changes: dict[str, Any]) -> tuple[dict[str, Any], list[float], Any]:
    """Run a step; return gradients, each layer's balancing loss, and experts' rows of all ranks."""
    clear_tracker()
    counted: list[Any] = []
    build = megatron_on_cpu.build

    def built(**given: Any) -> Any:
        model = build(**{**given, "moe_aux_loss_coeff": COEFFICIENT, **changes})
        counted.append(expert_rows.ExpertRows([model]))
        return model

    megatron_on_cpu.build = built
    try:
        _, gradients, _ = gather_edge.step("alltoall", batches, torch.float32)
    finally:
        megatron_on_cpu.build = build
    places = vector.Places(world=2, layers=megatron_on_cpu.LAYERS, experts=megatron_on_cpu.EXPERTS)
    whole = torch.zeros(places.size)
    counted[0].drain(whole, places)
    dist.all_reduce(whole)
    tracker = utils.get_moe_layer_wise_logging_tracker()
    losses = [value for each in tracker.values() for value in each["values"].tolist()]
    return gradients, losses, whole[2 * len(vector.FIELDS) :].tolist()


def main() -> None:
    upstream, ours = collators(SPACE)
    plain, filled = collated(upstream, own.KEY), collated(ours, own.KEY)
    real = sum(sum(each["seq_lens"]) for each in plain)
    tokens = torch.tensor(real)
    dist.all_reduce(tokens)
    right = {name: step(plain, changes) for name, changes in VARIANTS.items()}
    wrong = step(filled, {})
    found = furthest(right["stored"][0], wrong[0])
    shown("without the feature filler changes gradients", found > 1e-3, found)
    share = sum(wrong[2]) / sum(right["stored"][2])
    shown("without the feature filler is counted", share > 1.2, share)
    loading.install("filler_mask")
    for name, changes in VARIANTS.items():
        plainly, masked = right[name], step(filled, changes)
        found = furthest(plainly[0], masked[0])
        shown(f"{name}: gradients as without filler but for", found < 1e-5, found)
        found = max(abs(a - b) for a, b in zip(plainly[1], masked[1], strict=True))
        shown(f"{name}: balancing losses as without filler but for", found < 1e-5, found)
        shown(f"{name}: rows of experts as without filler", plainly[2] == masked[2])
    each = sum(masked[2]) / megatron_on_cpu.LAYERS / 4  # experts of a token in gather_edge
    shown("each text's token is counted once", each == int(tokens))


if __name__ == "__main__":
    megatron_on_cpu.join()
    gather_edge: Any = importlib.import_module("tests.launchers.training.packs.gather_edge")
    own: Any = importlib.import_module("launchers.reference.trainer")
    loading: Any = importlib.import_module("launchers.training.loading")
    expert_rows: Any = importlib.import_module("launchers.training.collect.expert_rows")
    vector: Any = importlib.import_module("launchers.metrics.vector")
    utils: Any = importlib.import_module("megatron.core.transformer.moe.moe_utils")
    layers: Any = importlib.import_module("megatron.core.transformer.moe.moe_layer")
    layers.MoELayer.is_mtp_layer = False  # as 0.18.0 says
    parallel: Any = importlib.import_module("megatron.core.tensor_parallel")
    parallel.checkpoint = again
    os.environ[patches.ACCEPT] = "filler-mask"  # these sources are those of 0.16.1
    for feature in ("reference", "equal_packs"):
        loading.install(feature)
    main()
    edge.end()
