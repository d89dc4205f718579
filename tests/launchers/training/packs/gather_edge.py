"""Training steps with gathered tokens, on two CPU ranks; run by the training Python.

Collator, model, experts over both ranks, both dispatchers, schedule, gradients' buffers, trainer
and loss are the real ones; so are our features. Each thing that holds is printed by rank 0.
"""

from __future__ import annotations

import copy
import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training import megatron_on_cpu, rank_end
from tests.launchers.training.packs.gather_packs import (
    SPACE,
    Batches,
    collated,
    collators,
    filling,
    furthest,
    rows,
)


class Whole(torch.nn.Module):  # type: ignore[misc]
    """Stands where megatron-core would turn inputs into bf16."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.config = module, module.config

    def forward(self, **given: Any) -> Any:
        return self.module(**given)

    def set_input_tensor(self, given: Any) -> None:
        self.module.set_input_tensor(given)


def trainer(model: Any, wrapped: Any) -> Any:
    """Return the trainer that ms-swift would make, around an existing model."""
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


def step(dispatcher: str, batches: Batches, kind: torch.dtype) -> Any:
    """Run a step's microbatches; return the losses, all gradients and the model.

    Args:
        dispatcher: of the experts' tokens.
        batches: of this rank.
        kind: of weights and activations.
    """
    core = importlib.import_module("megatron.core.distributed")
    run = importlib.import_module("megatron.core.pipeline_parallel").get_forward_backward_func()
    halves = importlib.import_module("megatron.core.transformer.module")
    model = megatron_on_cpu.build(
        bf16=kind == torch.bfloat16,
        params_dtype=kind,
        moe_token_dispatcher_type=dispatcher,
        moe_router_dtype="fp32",
        moe_router_topk=4,
        moe_aux_loss_coeff=0.0,  # it counts what fills a pack
    )
    inner = halves.Float16Module(model.config, model) if model.config.bf16 else Whole(model)
    buffers = core.DistributedDataParallelConfig(use_distributed_optimizer=False)
    wrapped = core.DistributedDataParallel(model.config, buffers, inner)
    model.model_type = "encoder_or_decoder"
    model.config.no_sync_func = wrapped.no_sync
    seen = run(
        forward_step_func=trainer(model, wrapped).forward_step,
        data_iterator=iter(copy.deepcopy(batches)),
        model=[wrapped],
        num_microbatches=len(batches),
        seq_length=SPACE,
        micro_batch_size=1,
        forward_only=False,
    )
    wrapped.finish_grad_sync()
    gradients = {name: weight.main_grad for name, weight in model.named_parameters()}
    return [float(each["loss"]) for each in seen], gradients, model


def apart(one: Any, other: Any) -> tuple[float, float]:
    """Return by how much losses differ, and gradients as a part of the greatest of their tensor."""
    losses = max(abs(a - b) for a, b in zip(one[0], other[0], strict=True))
    return losses, furthest(one[1], other[1])


def shown(what: str, holds: bool, *reported: object) -> None:
    """Print what holds on this rank."""
    assert holds, (what, *reported)
    if dist.get_rank() == 0:
        print(what, *reported, flush=True)


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
    [full] = {sum(plain[0]["seq_lens"])}
    exact = collators(full)[1]([rows()[0]])
    shown("a full pack is left alone", exact["input_ids"].equal(plain[0]["input_ids"]))
    try:
        collators(full - 1)[1]([rows()[0]])
    except exits.LaunchError as error:
        shown(f"refused: {error}", error.code == exits.Exit.DATA)


if __name__ == "__main__":
    megatron_on_cpu.join()
    own: Any = importlib.import_module("launchers.reference.trainer")
    added: Any = importlib.import_module("launchers.training.experts.rank_order")
    exits: Any = importlib.import_module("launchers.exits")
    loading: Any = importlib.import_module("launchers.training.loading")
    for feature in ("reference", "equal_packs", "rank_order"):
        loading.install(feature)
    dispatchers: Any = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
    main()
    rank_end.end()
