"""Training steps with gathered tokens, on two CPU ranks; run by the training Python.

Collator, model, experts over both ranks, both dispatchers, schedule, gradients' buffers, trainer
and loss are the real ones; so are our features. Each thing that holds is printed by rank 0.
"""

import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training import dpo_step, edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import (
    SPACE,
    Batches,
    collated,
    collators,
    filling,
    furthest,
    rows,
)


def step(dispatcher: str, batches: Batches, kind: torch.dtype) -> Any:
    """Run a step's microbatches; return the losses, all gradients and the model."""
    model = megatron_on_cpu.build(
        bf16=kind == torch.bfloat16,
        params_dtype=kind,
        moe_token_dispatcher_type=dispatcher,
        moe_router_dtype="fp32",
        moe_router_topk=4,
        moe_aux_loss_coeff=0.0,  # it counts what fills a pack
    )
    run = dpo_step.trainer(model, dpo_step.buffered(model))
    run._all_reduce_metric = lambda metric: metric
    seen = dpo_step.forward_backward(run, batches, SPACE)
    gradients = {name: weight.main_grad for name, weight in model.named_parameters()}
    return [float(each["loss"]) for each in seen], gradients, model


def apart(one: Any, other: Any) -> tuple[float, float]:
    """Return by how much losses differ, and gradients as a part of the greatest of their tensor."""
    losses = max(abs(a - b) for a, b in zip(one[0], other[0], strict=True))
    return losses, furthest(one[1], other[1])


def compare(plain: Batches, filled: Batches, kind: torch.dtype, most: tuple[float, float]) -> None:
    """Compare both dispatchers; ``most`` is by how much losses and gradients may differ."""
    sent: list[Any] = []
    inner = added.RankOrder.apply

    def seen(parts: Any, group: Any) -> Any:
        sent.append(parts.dtype)
        return inner(parts, group)

    one, two = step("alltoall", plain, kind), step("alltoall", filled, kind)
    shown(f"{kind}: what fills packs changes nothing", apart(one, two) == (0.0, 0.0))
    added.RankOrder.apply = seen
    other = step("allgather", filled, kind)
    added.RankOrder.apply = inner
    layer = other[2].decoder.layers[0].mlp.token_dispatcher
    shown(f"{kind}: gathers", type(layer) is dispatchers.MoEAllGatherTokenDispatcher)
    shown(f"{kind}: adds up in its own type", set(sent) == {kind})
    found = apart(one, other)
    shown(f"{kind}: equal but for", found[0] <= most[0] and found[1] <= most[1], found)


def count_early(batches: Batches) -> None:
    """Compare the dispatcher's steps with and without ``early_counts``, gradients too."""
    kinds = (torch.float32, torch.bfloat16)
    before = [step("allgather", batches, kind) for kind in kinds]
    early.install()
    read: list[Any] = []
    inner = early.Counts.read

    def seen(counts: Any) -> Any:
        read.append(inner(counts))
        return read[-1]

    early.Counts.read = seen
    for kind, one in zip(kinds, before, strict=True):
        other = step("allgather", batches, kind)
        shown(f"{kind}: early counts change nothing", apart(one, other) == (0.0, 0.0))
        left = [each.mlp.token_dispatcher.local_probs.grad_fn for each in other[2].decoder.layers]
        shown(f"{kind}: no layer keeps the graph", left == [None] * len(left), left)
    shown("counts are read early", len(read) > 0 and all(int(each.sum()) for each in read))


def count_alone(theirs: tuple[Any, Any]) -> None:
    """Compare with upstream on a rank that has all experts, also if rows are fewer than known."""
    steps = [theirs, (early.token_dispatch, early.dispatch_postprocess)]
    chance = torch.Generator().manual_seed(5)
    hidden, probs = torch.randn(6, 4, generator=chance), torch.rand(6, 8, generator=chance)
    routed = torch.zeros(6, 8).bool().scatter(1, probs.topk(2).indices, True)
    sizes = {"num_moe_experts": 8, "moe_router_topk": 2, "moe_expert_capacity_factor": None}
    config = SimpleNamespace(**sizes, moe_permute_fusion=False)
    inner, sizes_given = early.upstream.permute, list[int]()

    def permute(*given: Any, num_out_tokens: int, **named: Any) -> Any:
        sizes_given.append(num_out_tokens)
        return inner(*given, num_out_tokens=num_out_tokens, **named)

    early.upstream.permute = permute
    for name, where in (("all", routed), ("fewer", routed & (probs < probs.max()))):
        found = []
        for dispatch, postprocess in steps:
            own = SimpleNamespace(config=config, tp_size=1, ep_size=1, tp_ep_group=None)
            own.local_expert_indices, own.num_local_experts, own.routing_map = [*range(8)], 8, where
            outputs = postprocess(own, *dispatch(own, hidden, probs))
            found.append([*outputs, own.reversed_local_input_permutation_mapping])
        pairs = zip(*found, strict=True)
        shown(f"{name} rows are upstream's", all(map(torch.equal, *zip(*pairs, strict=True))))
    # upstream's first, then as many as are known, and once more if there are fewer
    shown("their number is known", sizes_given == [12, 12, 11, 12, 11], sizes_given)
    early.upstream.permute = inner


def main() -> None:
    """Compare both dispatchers in fp32 and in bf16, and refuse what does not fit."""
    upstream, ours = collators(SPACE)
    plain, filled = collated(upstream, own.KEY), collated(ours, own.KEY)
    reported: list[Any] = [None, None]
    dist.all_gather_object(reported, [each["input_ids"].shape[-1] for each in plain])
    shown("packs differ between ranks", reported[0] != reported[1])
    shown("packs are filled by a text that counts nowhere", filling(plain, filled))
    compare(plain, filled, torch.float32, (1e-5, 1e-5))
    compare(plain, filled, torch.bfloat16, (1e-3, 3e-2))
    kind = dispatchers.MoEAllGatherTokenDispatcher
    theirs = kind.token_dispatch, kind.dispatch_postprocess
    count_early(filled)
    count_alone(theirs)
    [full] = {sum(plain[0]["seq_lens"])}
    exact = collators(full)[1]([rows()[0]])
    shown("a full pack is left alone", exact["input_ids"].equal(plain[0]["input_ids"]))
    try:
        collators(full - 1)[1]([rows()[0]])
    except exits.LaunchError as error:
        is_right = str(error).startswith("recipe.args.packing_length: ")
        shown(f"refused: {error}", is_right and error.code == exits.Exit.DATA)


if __name__ == "__main__":
    megatron_on_cpu.join()
    own: Any = importlib.import_module("launchers.reference.trainer")
    added: Any = importlib.import_module("launchers.training.experts.rank_order")
    early: Any = importlib.import_module("launchers.training.experts.early_counts")
    exits: Any = importlib.import_module("launchers.exits")
    loading: Any = importlib.import_module("launchers.training.loading")
    for feature in ("reference", "equal_packs", "rank_order"):
        loading.install(feature)
    dispatchers: Any = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
    main()
    edge.end()
