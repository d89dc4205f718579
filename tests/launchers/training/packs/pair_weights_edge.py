"""Steps of packed DPO with equal weights, compared with the same pairs unpacked, on two CPU ranks.

Run by the training Python. Sampler, collator, model with its experts over both ranks, schedule,
gradients' buffers, trainers and losses are the real ones. Each thing that holds is printed by rank
0. The first argument is the way of having the reference: ``online`` or ``precomputed``.
"""

import copy
import importlib
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training import dpo_step, edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import Batches, furthest, packs, template

MICRO = 3
SIZES = (1, 5, 2, 1, 7, 3, 2, 2)
"""Pairs of each pack; of these packs a step has six: three microbatches on each of two ranks."""
ALPHA = 0.5


def stored(row: dict[str, Any]) -> list[float]:
    """Return made-up log-probabilities of the reference for a pair."""
    return [-5.0 * len(row[f"{part}_input_ids"]) for part in ("chosen", "rejected")]


def batch(rows: list[Any]) -> dict[str, Any]:
    """Collate one pack, with the reference's log-probabilities."""
    values = torch.tensor([stored(row) for row in rows]).T.contiguous()
    return {**template().data_collator([rows]), **({own.KEY: values} if own else {})}


def sampler(made: list[list[Any]]) -> Any:
    upstream = SimpleNamespace(
        **{"total_samples": len(made), "consumed_samples": 0, "micro_batch_size": 1},
        **{"data_parallel_size": 2, "data_parallel_rank": dist.get_rank()},
    )
    costs = [float(sum(len(row["chosen_input_ids"]) for row in pack)) for pack in made]
    return packing.DealtSampler(upstream, costs, list(map(len, made)), MICRO * 2)


def step(
    name: str, batches: Batches, alpha: float, aux: float = 0.0, dealt: Any = None
) -> tuple[Any, Any, Any]:
    """Run the microbatches of a rank; return metrics, gradients and the trainer."""
    fp32 = {"bf16": False, "params_dtype": torch.float32, "moe_router_dtype": "fp32"}
    model = megatron_on_cpu.build(**fp32, moe_aux_loss_coeff=aux)
    wrapped, reference = dpo_step.buffered(model), megatron_on_cpu.build(**fp32)
    with torch.no_grad():
        for weight in reference.parameters():
            weight.mul_(0.9)
    args = {"num_microbatches": len(batches), "global_batch_size": len(batches) * 2}
    run = dpo_step.trainer(model, wrapped, KINDS[name], reference, rpo_alpha=alpha, **args)
    run.dealt_sampler = dealt
    metrics, _, _ = run.train_step(iter(copy.deepcopy(batches)))
    wrapped.finish_grad_sync()
    gradients = {key: weight.main_grad for key, weight in model.named_parameters()}
    return metrics, gradients, run


def logged(metrics: Any, name: str) -> float:
    """Return a metric as ms-swift logs it (``_aggregated_metrics``, ``_log_callback``)."""
    values = torch.stack([each[name] for each in metrics])
    if values.dim() == 1:
        return float(values.mean())
    total = values.sum(0)
    return float(total[0] / total[1])


def unpacked(used: list[list[Any]]) -> Batches:
    """Return the pairs of a step one a row, half of them on each rank."""
    rows = [row for pack in used for row in pack]
    assert len(rows) % 2 == 0
    return [batch([row]) for row in rows[dist.get_rank() :: 2]]


def main() -> None:
    """Compare equal weights with unpacked pairs, and weights by pack with upstream's trainer."""
    made = packs(SIZES)
    dealt = sampler(made)
    mine = [dealt_pack for [dealt_pack] in list(dealt)[:MICRO]]
    of_step: list[Any] = [None, None]
    dist.all_gather_object(of_step, mine)
    chosen = [made[pack] for pack in sum(of_step, [])]
    packed = [batch(made[pack]) for pack in mine]
    alone = unpacked(chosen)
    pairs = sum(map(len, chosen))
    dealt = sampler(made)
    shown("packs of a step differ in pairs", len({len(pack) for pack in chosen}) > 2)
    shown("the sampler knows the pairs of a step", dealt.rows_of_step(0) == pairs == 16)
    for alpha in (0.0, ALPHA):
        same = step(UPSTREAM, alone, alpha)
        equal = step("equal", packed, alpha, dealt=dealt)
        other = step(UPSTREAM, packed, alpha)
        found = furthest(same[1], equal[1])
        shown(f"alpha {alpha}: gradients of unpacked pairs", found < 2e-6, found)
        shown(f"alpha {alpha}: by pack they differ", furthest(same[1], other[1]) > 1e-2)
        for name in same[0][0]:
            near = abs(logged(same[0], name) - logged(equal[0], name))
            assert near < 2e-6 * max(1.0, abs(logged(same[0], name))), (name, near)
        shown(f"alpha {alpha}: metrics of unpacked pairs", same[0][0].keys() == equal[0][0].keys())
    auxiliary(packed, dealt)
    refused(packed, dealt)


def auxiliary(packed: Batches, dealt: Any) -> None:
    """The experts' auxiliary loss adds the same gradients with both weights."""
    added = []
    for name in (UPSTREAM, "equal"):
        with_aux, without = (step(name, packed, 0.0, aux, dealt)[1] for aux in (1.0, 0.0))
        added.append({key: with_aux[key] - without[key] for key in with_aux if "router" in key})
    shown("the auxiliary loss keeps its weight", furthest(*added) < 1e-4, furthest(*added))


def refused(packed: Batches, dealt: Any) -> None:
    """A step that had other packs than the sampler dealt ends the run."""
    try:
        step("equal", packed[:-1] + packed[:1], 0.0, dealt=dealt)
    except exits.LaunchError as error:
        shown("a pack too many is refused", error.id == "pair-weights-count", error.id)


if __name__ == "__main__":
    megatron_on_cpu.join()
    way = sys.argv[1]
    # the schedule of megatron-core 0.16.1, the last one for this Python, differs from 0.18.0's only
    # in how it asks for a device
    os.environ["DPO_ACCEPT_PATCHES"] = "pair-weights"
    exits: Any = importlib.import_module("launchers.exits")
    loading: Any = importlib.import_module("launchers.training.loading")
    trainers: Any = importlib.import_module("swift.megatron.trainers")
    UPSTREAM = way
    KINDS = {"online": trainers.MegatronDPOTrainer}
    own: Any = None
    if way == "precomputed":
        own = importlib.import_module("launchers.reference.trainer")
        loading.install("reference")
        KINDS[way] = trainers.MegatronDPOTrainer
    added: Any = importlib.import_module("launchers.training.packs.pair_weights")
    try:
        added.install()
    except exits.LaunchError as refusal:
        shown("refused without packing", refusal.id == "pair-weights-packing", refusal.id)
    loading.install("packing")
    loading.install("pair_weights")
    packing: Any = importlib.import_module("launchers.training.packs.packing")
    KINDS["equal"] = trainers.MegatronDPOTrainer
    main()
    edge.end()
