"""ms-swift's trainer around a model in megatron-core's buffers of gradients, for ``*_edge.py``."""

import copy
import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist


class Whole(torch.nn.Module):  # type: ignore[misc]
    """Stands where megatron-core would turn inputs into bf16."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.config = module, module.config

    def forward(self, **given: Any) -> Any:
        return self.module(**given)

    def set_input_tensor(self, given: Any) -> None:
        self.module.set_input_tensor(given)


def buffered(model: Any) -> Any:
    """Return a model in megatron-core's buffers of gradients."""
    core = importlib.import_module("megatron.core.distributed")
    halves = importlib.import_module("megatron.core.transformer.module")
    inner = halves.Float16Module(model.config, model) if model.config.bf16 else Whole(model)
    buffers = core.DistributedDataParallelConfig(use_distributed_optimizer=False)
    wrapped = core.DistributedDataParallel(model.config, buffers, inner)
    model.model_type = "encoder_or_decoder"
    model.config.no_sync_func = wrapped.no_sync
    return wrapped


def trainer(model: Any, wrapped: Any, kind: Any = None, reference: Any = None, **args: Any) -> Any:
    """Return the trainer that ms-swift would make, around existing models.

    ``wrapped`` is ``buffered``; by default ``kind`` is what ms-swift would take now.
    """
    theirs = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    found = object.__new__(
        kind or importlib.import_module("swift.megatron.trainers").MegatronDPOTrainer
    )
    usual = {
        **{"padding_free": True, "context_parallel_size": 1, "pipeline_model_parallel_size": 1},
        **{"task_type": "causal_lm", "rpo_alpha": 0.5, "model_type": "qwen3_moe"},
        **{"reference_free": False, "label_smoothing": 0, "f_divergence_type": "reverse_kl"},
        **{"loss_type": "sigmoid", "beta": 0.1, "seq_length": 0, "micro_batch_size": 1},
        **{"tuner_type": "full", "mcore_ref_adapter": None, "ref_adapters": None},
    }
    found.args = SimpleNamespace(**usual | args)
    found.dummy_dpo_trainer = theirs.DummyDPOTrainer(found.args)
    found._all_reduce_metric = averaged
    found.config, found.enable_routing_replay = model.config, False
    found.wrapped_models, found.unwrapped_models, found.ref_models = [wrapped], [model], [reference]
    found.state = SimpleNamespace(consumed_train_samples=0)
    found.optimizer = SimpleNamespace(zero_grad=lambda: None, step=lambda: (True, 1.0, None))
    found.opt_param_scheduler = SimpleNamespace(step=lambda increment: None)
    return found


def averaged(metric: dict[str, Any]) -> dict[str, Any]:
    """Average over the replicas: gloo has only sums."""
    group = importlib.import_module("megatron.core.parallel_state").get_data_parallel_group()
    values = torch.stack(list(metric.values()))
    dist.all_reduce(values, group=group)
    return dict(zip(metric, values / group.size(), strict=True))


def forward_backward(run: Any, batches: list[dict[str, Any]], seq_length: int) -> Any:
    """Run a step's microbatches by megatron-core's schedule; return what the loss reported."""
    schedule = importlib.import_module("megatron.core.pipeline_parallel")
    seen = schedule.get_forward_backward_func()(
        forward_step_func=run.forward_step,
        data_iterator=iter(copy.deepcopy(batches)),
        model=run.wrapped_models,
        num_microbatches=len(batches),
        seq_length=seq_length,
        micro_batch_size=1,
        forward_only=False,
    )
    run.wrapped_models[0].finish_grad_sync()
    return seen
