"""A step of packed DPO, split by layers or by tokens over two CPU ranks, against two whole ones.

``-m tests.launchers.training.packs.split_edge SPLIT REFERENCE``: ``pipeline`` gives each rank half
of the layers, ``context`` half of each text; REFERENCE is ``online`` or ``precomputed``. Trainers,
losses, collator, schedule, model and gradients' buffers are the real ones, attention over the parts
of a text is not (``megatron_on_cpu.py``). Both steps have the same packs, all with filler, and
equal weights of pairs. Each thing that holds is printed by rank 0.
"""

import copy
import importlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from launchers.stop import finished
from tests.launchers.training import dpo_step, edge, megatron_on_cpu
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import Batches, furthest, packs, template

LAYERS, RANKS = 4, 2
SIZES = (1, 5, 2, 1, 7, 3)
"""Pairs of each pack of the step."""
MULTIPLE = 64
"""Packs are padded to a multiple of so many tokens, as 8-bit products need it."""
ALPHA, AUXILIARY = 0.5, 0.1
FP32: dict[str, Any] = {
    "bf16": False,
    "params_dtype": torch.float32,
    "moe_router_dtype": "fp32",
    "num_layers": LAYERS,
    "expert_model_parallel_size": 1,
    "pipeline_dtype": torch.float32,
    "overlap_p2p_comm": False,
    "batch_p2p_comm": True,
}
FLAGS = {"pipeline": "pipeline_model_parallel_size", "context": "context_parallel_size"}
KEY = "reference_logps"


def collated(split: str, is_stored: bool) -> Batches:
    """Return the microbatches of the whole step, collated as ms-swift does for a split."""
    found, mine = [], template()
    mine.sequence_parallel_size = RANKS if split == "context" else 1
    for rows in packs(SIZES):
        values = [[-5.0 * row[f"{part}_length"] for row in rows] for part in ("chosen", "rejected")]
        batch = mine.data_collator([rows], padding_to=MULTIPLE)
        found.append({**batch, **({KEY: torch.tensor(values)} if is_stored else {})})
    return found


def named(model: Any) -> dict[str, Any]:
    """Return a model's parameters by their names in the whole model."""
    state = importlib.import_module("megatron.core.parallel_state")
    first = state.get_pipeline_model_parallel_rank() * len(model.decoder.layers)
    return {
        re.sub(r"layers\.(\d+)", lambda found: f"layers.{int(found[1]) + first}", name): weight
        for name, weight in model.named_parameters()
    }


@dataclass(frozen=True, kw_only=True)
class Step:
    metrics: dict[str, float]
    """Empty where no stage of this rank computes the loss."""
    evaluated: dict[str, float]
    """Of an evaluation of the same packs before the step."""
    gradients: dict[str, Any]
    weights: dict[str, Any]


def step(split: str, batches: Batches, weights: dict[str, Any] | None, auxiliary: float) -> Step:
    """Evaluate this rank's microbatches, then run a step of them.

    ``split`` is a key of ``FLAGS``, empty for two replicas; ``auxiliary`` weighs balancing.
    """
    sizes = {flag: RANKS if name == split else 1 for name, flag in FLAGS.items()}
    model, reference = (
        megatron_on_cpu.build(**FP32, **sizes, moe_aux_loss_coeff=auxiliary) for _ in range(2)
    )
    with torch.no_grad():
        for name, weight in named(model).items() if weights else ():
            weight.copy_((weights or {})[name])
        for name, weight in named(reference).items():
            weight.copy_(0.9 * named(model)[name])
    wrapped = dpo_step.buffered(model)
    args = {"num_microbatches": len(batches), "global_batch_size": len(SIZES), **sizes}
    more = {"is_multimodal": False, "mtp_num_layers": None}
    run = dpo_step.trainer(model, wrapped, None, reference, rpo_alpha=ALPHA, **args, **more)
    run.dealt_sampler = SimpleNamespace(rows_of_step=lambda _: sum(SIZES))
    evaluated = evaluation(run, batches)
    wrapped.train()
    metrics, _, _ = run.train_step(iter(copy.deepcopy(batches)))
    wrapped.finish_grad_sync()
    own = named(model)
    return Step(
        metrics=means(metrics),
        evaluated=evaluated,
        gradients={name: weight.main_grad.clone() for name, weight in own.items()},
        weights={name: weight.detach().clone() for name, weight in own.items()},
    )


def evaluation(run: Any, batches: Batches) -> dict[str, float]:
    """Evaluate as ms-swift does, with the feature; return the means that it logs."""
    rounds = importlib.import_module("launchers.evaluation.rounds")
    run.args.held_out_microbatches, run.args.eval_iters = len(batches), 1
    run.args.rlhf_type, run.eval_metrics = "dpo", None
    run.call_event, run.callbacks = lambda *_, **__: None, []
    run.on_log = lambda **_: None  # it would divide, and average the balancing loss by NCCL
    found = run.evaluate(rounds.HeldOut(copy.deepcopy(batches)))
    found.pop("n_steps")
    return means([found] if found else [])


def means(metrics: list[Any]) -> dict[str, float]:
    """Return the metrics as ms-swift logs them: sums over the microbatches, divided."""
    names = metrics[0] if metrics else ()
    sums = {name: torch.stack([each[name] for each in metrics]).sum(0) for name in names}
    return {name: float(total / count) for name, (total, count) in sums.items()}


def main(split: str, is_stored: bool) -> None:
    """Compare a step that is split with the same step on two replicas."""
    state: Any = importlib.import_module("megatron.core.parallel_state")
    whole, batches = collated("", is_stored), collated(split, is_stored)
    fillers = [each["input_ids"].shape[-1] - sum(each["seq_lens"]) for each in batches]
    shown("packs have filler", min(fillers) >= 0 and max(fillers) > 0, fillers)
    right = step("", whole[dist.get_rank() :: RANKS], None, AUXILIARY)
    state.destroy_model_parallel()
    state.initialize_model_parallel(**{FLAGS[split]: RANKS})
    other = step(split, batches, right.weights, AUXILIARY)
    expected = {name: right.gradients[name] for name in other.gradients}
    number, of_all = len(expected), len(right.gradients)
    shown("a stage has its layers alone", (number < of_all) is (split == "pipeline"), number)
    found = furthest(expected, other.gradients)
    shown("gradients are those of two replicas but for", found < 1e-5, found)
    is_last = state.is_pipeline_last_stage()
    for what in ("metrics", "evaluated"):
        one, two = getattr(right, what), getattr(other, what)
        assert bool(two) is is_last, (what, two)
        for name, value in two.items():
            assert abs(value - one[name]) < 1e-5 * max(1.0, abs(value)), (what, name, one, two)
        shown(f"{what}: those of two replicas, on the last stage", True)
    missed(split, batches, right.weights, is_last)


def missed(split: str, batches: Batches, weights: Any, is_last: bool) -> None:
    """A step that had other packs than announced ends the run on the ranks that see it."""
    exits: Any = importlib.import_module("launchers.exits")
    other = [*batches[:-1], batches[0]]
    refused = fails(lambda: step(split, other, weights, 0.0), exits.LaunchError)
    shown("another number of pairs is refused", (refused == "pair-weights-count") is is_last)


def fails(call: Callable[[], object], kind: type[Exception]) -> str:
    """Return the id of the error that a call ends with; empty without one."""
    try:
        call()
    except kind as error:
        return str(vars(error)["id"])
    return ""


if __name__ == "__main__":
    megatron_on_cpu.enter()
    finished.end_at_exit()
    dist.init_process_group("gloo")
    vars(torch.cuda)["synchronize"] = lambda *_: None
    importlib.import_module("megatron.core.parallel_state").initialize_model_parallel()
    batching = importlib.import_module("swift.megatron.trainers.utils")
    vars(batching)["get_current_device"] = lambda: torch.device("cpu")
    # the sources of 0.16.1
    os.environ["DPO_ACCEPT_PATCHES"] = "pair-weights,filler-mask,evaluation"
    loading: Any = importlib.import_module("launchers.training.loading")
    trainers: Any = importlib.import_module("swift.megatron.trainers")
    features = ["packing", "evaluation", "pair_weights", "filler_mask"]
    for feature in (["reference"] if sys.argv[2] == "precomputed" else []) + features:
        loading.install(feature)
    main(sys.argv[1], sys.argv[2] == "precomputed")
    edge.end()
