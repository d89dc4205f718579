"""Evaluations of ms-swift's own Megatron trainer with and without ours; two ranks on CPU.

The trainers, the sampler and the loss are ms-swift's, the model is a table. Each case that holds
prints its name.
"""

import importlib
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit, LaunchError
from launchers.flags.features import EVALUATE_VARIABLE
from launchers.metrics import writer
from launchers.stop import finished
from launchers.storage.checkpoint import seal
from tests.launchers.reference import megatron_free
from tests.launchers.reference.reference_parts import collate, options, row, trainer
from tests.launchers.training import edge
from tests.launchers.training.edge import shown

SIZES = (1, 5, 2, 7, 3)
"""Pairs of each held-out pack: four make two rounds of both replicas, the last one is left out."""


UNSET = dict.fromkeys(("num_train_epochs", "mtp_num_layers", "dsa_indexer_loss_coeff"))
UNSET["virtual_pipeline_model_parallel_size"] = None
OFF = dict.fromkeys(("train_dataloader_shuffle", "data_sharding", "group_by_length"), False)
OFF |= dict.fromkeys(("dataloader_persistent_workers", "greater_is_better"), False)
OFF |= dict.fromkeys(("is_multimodal", "overlap_grad_reduce", "overlap_param_gather"), False)
OFF["nccl_comm_warmup"] = False


def made(cls: Any, upstream: Any, home: Path, **changed: Any) -> Any:
    """Return a trainer, the same on both ranks, whose checkpoint says it has done no step."""
    args = options(home, **changed)
    sizes = {"eval_iters": -1, "num_microbatches": 3, "global_batch_size": 6, "train_iters": 9}
    words = {"save_strategy": "steps", "rlhf_type": "dpo", "metric_for_best_model": "loss"}
    numbers = {"data_seed": 42, "num_generations": 1}
    vars(args).update({**UNSET, **OFF, **sizes, **words, **numbers, **changed})
    torch.manual_seed(5)
    run = trainer(cls, upstream, args)
    del run._all_reduce_metric
    run.state = SimpleNamespace(
        iteration=0, consumed_train_samples=0, best_metric=None, best_global_step=None
    )
    run.config = SimpleNamespace(num_moe_experts=None)
    run.optimizer = SimpleNamespace(scale_loss=None)
    run.eval_metrics, run.callbacks, run.data_collator = None, [], collate
    return run


def packs() -> list[list[Any]]:
    chance = torch.Generator().manual_seed(4)
    return [[row(chance) for _ in range(size)] for size in SIZES]


def by_hand(run: Any, chosen: list[Any]) -> float:
    """Return the mean of DPO's loss over the pairs: policy and reference are the same table."""
    both = []
    for pack in chosen:
        loss, metric = output_of(run, pack)
        both += [float(metric["loss"])] * len(pack)
    return sum(both) / len(both)


def output_of(run: Any, pack: list[Any]) -> Any:
    """Run one pack by upstream's own functions, without other ranks."""
    run._all_reduce_metric = lambda metric: metric
    output, loss_func = run.forward_step(iter([collate([pack])]), run.wrapped_models[0])
    found = loss_func(output)
    del run._all_reduce_metric
    return found


class Online:
    """Gives upstream's trainer another table as its reference."""

    def __init__(self, run: Any) -> None:
        torch.manual_seed(6)
        self.table = type(run.unwrapped_models[0])().eval()

    def __call__(self) -> Any:
        return self

    def __enter__(self) -> list[Any]:
        return [self.table]

    def __exit__(self, *_: object) -> None: ...


def with_reference(cls: Any, upstream: Any, home: Path, **changed: Any) -> Any:
    run = made(cls, upstream, home, **changed)
    run.null_ref_context = Online(run)
    vars(run.unwrapped_models[0])["get_input_tensor"] = lambda: None
    vars(run.unwrapped_models[0])["set_input_tensor"] = lambda _: None
    return run


def upstreams(base: Any, upstream: Any, home: Path) -> None:
    """Show what is wrong without the feature: two evaluations of one model differ."""
    run = with_reference(upstream.MegatronDPOTrainer, upstream, home)
    base.MegatronArguments.init_iters(run.args, packs(), packs())
    for model in run.wrapped_models:
        model.eval()
    _, held_out = run._prepare_data_iterator(packs(), packs())
    first, second = (run.evaluate(held_out)["loss"] for _ in range(2))
    assert first != second, (first, second)
    shown("upstream: two evaluations of one model differ")


def ours(own: Any, upstream: Any, home: Path) -> None:
    run = with_reference(upstream.MegatronDPOTrainer, upstream, home, rpo_alpha=0.7)
    own.MegatronArguments.init_iters(run.args, packs(), packs())
    assert run.args.held_out_microbatches == 2
    run.setup_model_training = lambda: None
    logged: list[Any] = []
    run.call_event = lambda event, **given: logged.append((event, given))
    state = torch.random.get_rng_state()
    _, held_out = run.setup_training(packs(), packs())
    assert run.wrapped_models[0].training
    events = [event for event, _ in logged]
    assert events == ["on_eval_begin", "on_eval_step", "on_log", "on_eval_end"], events
    found = logged[2][1]["logs"]
    assert (run.args.eval_iters, run.args.num_microbatches) == (1, 3)
    shown("a run is evaluated before its first step")
    again = run.evaluate(held_out)
    assert {f"eval_{name}": value for name, value in again.items()} == found
    shown("two evaluations of one model are equal")
    run.wrapped_models[0].eval()
    assert abs(found["eval_loss"] - by_hand(run, packs()[:4])) < 1e-5, found
    assert 0 <= found["eval_rewards/accuracies"] <= 1
    assert abs(found["eval_rewards/accuracies"] * 15 % 1) < 1e-4  # 1 + 5 + 2 + 7 pairs
    shown("numbers are means over the pairs of all replicas")
    assert torch.equal(state, torch.random.get_rng_state())
    shown("the training's random state is as without evaluation")
    sgd(run, held_out)


def weighed_equally(own: Any, upstream: Any, home: Path) -> None:
    """With ``recipe.pairWeights: equal`` the trainer itself reports sums over pairs."""
    weights: Any = importlib.import_module("launchers.training.packs.pair_weights")
    run = with_reference(weights.EqualPairsDPOTrainer, upstream, home)
    own.MegatronArguments.init_iters(run.args, packs(), packs())
    _, held_out = run._prepare_data_iterator(packs(), packs())
    run.call_event = lambda event, **given: None
    found = run.evaluate(held_out)
    plain = with_reference(upstream.MegatronDPOTrainer, upstream, home)
    plain.wrapped_models[0].eval()
    assert abs(found["loss"] - by_hand(plain, packs()[:4])) < 1e-5, found
    assert abs(found["rewards/accuracies"] * 15 % 1) < 1e-4  # 1 + 5 + 2 + 7 pairs
    shown("equal pair weights have the same means")


def sgd(run: Any, held_out: Any) -> None:
    """An evaluation notices that the policy has changed."""
    before = run.evaluate(held_out)["loss"]
    with torch.no_grad():
        run.unwrapped_models[0].table.weight += torch.eye(64)
    assert run.evaluate(held_out)["loss"] != before
    shown("another policy has another loss")


def limits(own: Any, upstream: Any, home: Path) -> None:
    """Evaluate on few rows, on none, and refuse fewer than a round."""
    run = made(upstream.MegatronDPOTrainer, upstream, home)
    init = own.MegatronArguments.init_iters
    try:
        init(run.args, packs(), packs()[:1])
    except LaunchError as error:
        assert (error.code, error.id) == (Exit.DATA, "held-out-too-few")
        shown("fewer held-out packs than replicas are refused")
    run.args.eval_iters = 0
    init(run.args, packs(), packs()[:1])
    assert run._prepare_data_iterator(packs(), packs())[1] is None
    shown("eval_iters 0 evaluates nothing")
    run.args.eval_iters, run.args.num_microbatches = 1, 1
    init(run.args, packs(), packs())
    assert run.args.held_out_microbatches == 1
    shown("eval_iters limits the rows")


def restored(own: Any, upstream: Any, home: Path) -> None:
    """A resumed run is not evaluated at its start, and knows the best of earlier attempts."""
    if dist.get_rank() == 0:
        for step, loss in ((2, 0.4), (4, 0.3), (6, 0.2)):
            one = Evaluation(
                step=step, total=9, attempt=1, time=1.0, seconds=1.0, values={"loss": loss}
            )
            writer.append(home / "metrics.jsonl", evaluations.line(one))
        for step in (2, 4):  # that of 6 was never completed
            folder = home / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            (folder / "x").write_text("x")
            seal(folder, step)
    dist.barrier()
    run = made(upstream.MegatronDPOTrainer, upstream, home)
    run.setup_model_training = lambda: None
    run.evaluate = lambda _: 1 / 0
    own.MegatronArguments.init_iters(run.args, packs(), packs())
    run.state.iteration = 4
    run.setup_training(packs(), packs())
    state = run.state
    assert (state.best_metric, state.best_global_step) == (0.3, 4)
    assert state.best_model_checkpoint == str(home / "checkpoint-4")
    shown("a resumed run knows the best checkpoint")
    made_first: list[Any] = []
    os.environ[EVALUATE_VARIABLE] = "1"
    run.evaluate = made_first.append
    _, held_out = run.setup_training(packs(), packs())
    assert made_first == [held_out] and run.wrapped_models[0].training
    shown("a run that was stopped in an evaluation makes it first")


def replicas() -> Path:
    """Make this process one of the data-parallel ranks on CPU; return a folder that they share."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    cpu: Any = torch.cuda
    cpu.current_device = lambda: torch.device("cpu")
    mpu: Any = megatron_free.MPU
    mpu.get_data_parallel_rank, mpu.get_data_parallel_world_size = lambda: rank, lambda: world
    mpu.get_data_parallel_group = lambda: None
    sent = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(sent)
    return Path(sent[0])


if __name__ == "__main__":
    megatron_free.enter()
    finished.end_at_exit()
    home = replicas()
    megatron: Any = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    arguments: Any = importlib.import_module("swift.megatron.arguments")
    os.environ["DPO_RUN_FOLDER"] = str(home / "run")
    upstreams(arguments, megatron, home / "run")
    loading: Any = importlib.import_module("launchers.training.loading")
    loading.install("evaluation")
    own: Any = importlib.import_module("launchers.evaluation.evaluation_megatron")
    ours(own, megatron, home / "run")
    weighed_equally(own, megatron, home / "run")
    limits(own, megatron, home / "run")
    restored(own, megatron, home / "run")
    edge.end()
