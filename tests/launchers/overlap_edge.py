"""Training steps with and without the overlap, on two CPU ranks; run by the training Python.

Model, experts over both ranks, all-to-all, schedules, gradients' buffers, trainer and loss are the
real ones. Each thing that holds is printed by rank 0.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers import megatron_on_cpu

BATCHES = 4


def batches(key: str) -> list[dict[str, Any]]:
    """Return packs of two pairs, others on each rank."""
    chance = torch.Generator().manual_seed(10 + dist.get_rank())
    found = []
    for _ in range(BATCHES):
        lengths = torch.randint(5, 20, (4,), generator=chance).tolist()
        words = torch.randint(0, megatron_on_cpu.WORDS, (1, sum(lengths)), generator=chance)
        asked = torch.rand(words.shape, generator=chance) < 0.7
        found.append(
            {
                "input_ids": words,
                "labels": torch.where(asked, words, -100),
                "position_ids": torch.cat([torch.arange(n) for n in lengths])[None],
                "seq_lens": lengths,
                key: -50 * torch.rand(2, 2, generator=chance),
            }
        )
    return found


def trainer(model: Any, wrapped: Any) -> Any:
    """Return the trainer that ms-swift would make, around a model that is there already."""
    found = object.__new__(importlib.import_module("swift.megatron.trainers").MegatronDPOTrainer)
    found.args = SimpleNamespace(
        **{"padding_free": True, "context_parallel_size": 1, "pipeline_model_parallel_size": 1},
        **{"task_type": "causal_lm", "rpo_alpha": 0.5, "model_type": "qwen3_moe"},
        **{"reference_free": False, "label_smoothing": 0, "f_divergence_type": "reverse_kl"},
        **{"loss_type": "sigmoid", "beta": 0.1},
    )
    theirs = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    found.dummy_dpo_trainer = theirs.DummyDPOTrainer(found.args)
    found._all_reduce_metric = lambda metric: metric
    found.config, found.wrapped_models, found.unwrapped_models = model.config, [wrapped], [model]
    return found


def step(overlaps: bool, *, reduces: bool = False, learns: bool = True) -> Any:
    """Run a step's microbatches; return the losses and all gradients.

    Args:
        overlaps: whether the model is built with the switch.
        reduces: whether gradients are added up over the ranks while others are computed.
        learns: whether the backward pass is run.
    """
    core = importlib.import_module("megatron.core.distributed")
    halves = importlib.import_module("megatron.core.transformer.module")
    run = importlib.import_module("megatron.core.pipeline_parallel").get_forward_backward_func()
    model = megatron_on_cpu.build(overlaps).train(learns)
    buffers = core.DistributedDataParallelConfig(
        overlap_grad_reduce=reduces, use_distributed_optimizer=False
    )
    wrapped = core.DistributedDataParallel(
        model.config, buffers, halves.Float16Module(model.config, model)
    )
    model.model_type = "encoder_or_decoder"
    model.config.no_sync_func = wrapped.no_sync
    with torch.set_grad_enabled(learns):
        seen = run(
            forward_step_func=trainer(model, wrapped).forward_step,
            data_iterator=iter(batches(own.KEY)),
            model=[wrapped],
            num_microbatches=BATCHES,
            seq_length=64,
            micro_batch_size=1,
            forward_only=not learns,
        )
    if learns:
        wrapped.finish_grad_sync()
    gradients = {name: weight.main_grad for name, weight in model.named_parameters()}
    return [float(each["loss"]) for each in seen], gradients


def same(one: Any, other: Any) -> bool:
    """Tell whether losses and gradients are equal bit by bit, and no gradient is nothing."""
    (losses, gradients), (others, found) = one, other
    equal = all(torch.equal(gradients[name], found[name]) for name in gradients)
    return equal and losses == others and all(float(each.abs().max()) for each in found.values())


def shown(what: str, holds: bool) -> None:
    """Print what holds on this rank."""
    assert holds, what
    if dist.get_rank() == 0:
        print(what, flush=True)


def main() -> None:
    """Compare, and refuse what has no plan."""
    planned: list[Any] = []
    inner = ours.Planner.__call__

    def counted(self: Any, **batch: Any) -> Any:
        planned.append(self)
        return inner(self, **batch)

    ours.Planner.__call__ = counted
    plain = step(False)
    shown("without the switch nothing is planned", not planned)
    shown("losses and gradients are equal bit by bit", same(plain, step(True)))
    shown("each microbatch was planned", len(planned) == BATCHES)
    added = step(False, reduces=True)
    shown("the same while gradients are added up", same(added, step(True, reduces=True)))
    losses, _ = step(True, learns=False)
    shown("evaluation plans nothing", losses == plain[0] and len(planned) == 2 * BATCHES)
    for model, batch in ((torch.nn.Linear(1, 1), {}), (megatron_on_cpu.build(True), {"pixels": 1})):
        try:
            ours.Planner(model)(**batch)
        except ours.OverlapConfigError as error:
            shown(f"refused: {error}", True)


if __name__ == "__main__":
    megatron_on_cpu.join()
    own: Any = importlib.import_module("launchers.training.reference.reference")
    ours: Any = importlib.import_module("launchers.training.overlap")
    main()
    dist.destroy_process_group()
