"""Losses, gradients and log-probabilities with the head on counted tokens only, on two CPU ranks.

Collator, model, experts, schedule, gradients' buffers, trainer and loss are the real ones.
"""

import copy
import importlib
from typing import Any

import torch

from tests.launchers.training import dpo_step, edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import SPACE, collated, collators, furthest


def step(batches: list[dict[str, Any]], kind: torch.dtype) -> Any:
    """Run a step; return losses, gradients and the tokens that each head has had."""
    model = megatron_on_cpu.build(
        bf16=kind == torch.bfloat16, params_dtype=kind, moe_aux_loss_coeff=0.0
    )
    rows: list[int] = []
    model.output_layer.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    run = dpo_step.trainer(model, dpo_step.buffered(model), sequence_parallel=False)
    run._all_reduce_metric = lambda metric: metric
    seen = dpo_step.forward_backward(run, batches, SPACE)
    gradients = {name: weight.main_grad for name, weight in model.named_parameters()}
    return [(float(each["loss"]), float(each["logps/chosen"])) for each in seen], gradients, rows


def with_prompts(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return batches whose texts have labels in their second half only."""
    found = copy.deepcopy(batches)
    for each in found:
        starts = [0, *torch.tensor(each["seq_lens"]).cumsum(0).tolist()]
        for start, size in zip(starts, each["seq_lens"], strict=False):
            each["labels"][0, start : start + size // 2] = -100
    return found


def seen_by_upstream() -> list[bool]:
    """Move microbatches by copies, as to a GPU; list whether texts were looked for in a copy."""
    moved: list[Any] = []
    inner, seen = pack_lengths._upstream, []

    def to_device(data: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        moved[:] = [each.clone() for each in data.values() if isinstance(each, torch.Tensor)]
        copies = iter(moved)
        return {k: next(copies) if isinstance(v, torch.Tensor) else v for k, v in data.items()}

    def found(args: Any, positions: Any) -> Any:
        seen.append(any(positions is each for each in moved))
        return inner(args, positions)

    trainer_utils.to_device, pack_lengths._upstream = to_device, found
    return seen


def main() -> None:
    """Compare both in fp32 and in bf16, with few rows and with all."""
    upstream, _ = collators(SPACE)
    batches = with_prompts(collated(upstream, reference.KEY))
    sizes = [each["input_ids"].shape[-1] for each in batches]
    kinds = (torch.float32, torch.bfloat16)
    before = {kind: step(batches, kind) for kind in kinds}
    shown("upstream computes all tokens", before[torch.float32][2] == sizes)
    loading.install("counted_head")
    loading.install("pack_lengths")
    waited = seen_by_upstream()
    counted_head.STEP = 8
    wanted = [len(counted_head.counted(each["labels"][0].roll(-1))) for each in batches]
    for kind, most in zip(kinds, (1e-6, 2e-2), strict=True):
        after = step(batches, kind)
        shown(f"{kind}: the head has the counted tokens", after[2] == wanted, after[2])
        shown(f"{kind}: losses and log-probabilities are equal", after[0] == before[kind][0])
        found = furthest(before[kind][1], after[1])
        shown(f"{kind}: gradients are equal but for", found <= most, found)
    shown("texts are found on the host", len(waited) > 0 and not any(waited), waited)
    shown("rows are saved", sum(wanted) < 0.8 * sum(sizes), (wanted, sizes))
    counted_head.STEP = 512
    shown("few tokens are all computed", step(batches, torch.float32)[2] == sizes)


if __name__ == "__main__":
    megatron_on_cpu.join()
    reference: Any = importlib.import_module("launchers.reference.trainer")
    loading: Any = importlib.import_module("launchers.training.loading")
    loading.install("reference")
    trainer_utils: Any = importlib.import_module("swift.megatron.trainers.utils")
    pack_lengths: Any = importlib.import_module("launchers.training.packs.pack_lengths")
    counted_head: Any = importlib.import_module("launchers.training.packs.counted_head")
    main()
    edge.end()
