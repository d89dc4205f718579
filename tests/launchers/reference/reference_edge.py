"""Our DPO trainer compared with ms-swift's own, in one process on CPU; run by the training Python.

The trainers, the loss and the batch's preparation are ms-swift's; the model is a table. Each case
that holds prints its name.
"""

import contextlib
import importlib
import math
import os
import shutil
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers.exits import Exit, LaunchError
from launchers.metrics import step as metrics_step
from launchers.metrics.reader import parse
from launchers.metrics.rows import line
from launchers.metrics.step import Clock
from launchers.system.failures import verdict
from launchers.training.collect import device
from tests.launchers.reference import megatron_free
from tests.launchers.reference.megatron_free import CALLS, packed_params
from tests.launchers.reference.reference_parts import Policy, collate, options, row, trainer
from tests.launchers.training import edge
from tests.launchers.training.edge import shown


def losses(own: Any, upstream: Any, home: Path) -> None:
    """Compare loss, metrics and gradients of both trainers over what changes them."""
    chance = torch.Generator().manual_seed(3)
    variants: list[dict[str, Any]] = [
        {},
        {"label_smoothing": 0.2},
        {"rpo_alpha": 0.7},
        {"f_divergence_type": "js_divergence"},
        {"f_divergence_type": "alpha_divergence"},
        {"reference_free": True},
        {"padding_free": False},
        {"padding_free": False, "rpo_alpha": 0.7},
    ]
    for changed in variants:
        args = options(home, **changed)
        mine = trainer(own.PrecomputedDPOTrainer, upstream, args)
        theirs = trainer(upstream.MegatronDPOTrainer, upstream, args)
        rows = [row(chance) for _ in range(3)]
        labels, packed = texts(rows, args)
        policy = torch.rand(labels.shape, generator=chance, requires_grad=True)
        reference = torch.rand(labels.shape, generator=chance)
        doubled = torch.cat([reference, policy])
        loss, metric = theirs.loss_func(doubled, labels=labels, packed_seq_params=packed)
        [wanted] = torch.autograd.grad(loss, policy)
        stored = own.sums(reference, labels, own.bounds_of(packed)).view(2, -1)
        reported = {"labels": labels, "packed_seq_params": packed, "reference": stored}
        got, seen = mine.loss_func(policy, **reported)
        [found] = torch.autograd.grad(got, policy)
        assert metric.keys() == seen.keys(), (changed, seen.keys())
        for name in metric:
            torch.testing.assert_close(seen[name], metric[name].detach(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)
        shown(f"loss {changed}")


def swapped(own: Any, upstream: Any, home: Path) -> None:
    """Swap chosen and rejected: each reported number must follow, in both trainers."""
    chance = torch.Generator().manual_seed(6)
    for changed in ({}, {"padding_free": False}, {"label_smoothing": 0.2}):
        args = options(home, **changed)
        rows = [row(chance) for _ in range(9)]
        labels, _ = texts(rows, args)
        policy, reference = (4 * torch.rand(labels.shape, generator=chance) for _ in range(2))
        sizes = [len(rows)] * 2
        if args.padding_free:
            sizes = [sum(len(one[f"{s}_labels"]) for one in rows) for s in ("chosen", "rejected")]
        sides = [
            (rows, policy, reference),
            (
                [_exchanged(one) for one in rows],
                *(_exchange(t, sizes) for t in (policy, reference)),
            ),
        ]
        before, after = (_reported(own, upstream, args, *side) for side in sides)
        for name in ("chosen", "rejected"):
            other = {"chosen": "rejected", "rejected": "chosen"}[name]
            for kind in ("logps", "rewards"):
                _near(after[f"{kind}/{name}"], before[f"{kind}/{other}"])
        _near(after["rewards/margins"], -before["rewards/margins"])
        _near(after["rewards/accuracies"], 1 - before["rewards/accuracies"])
        assert before["rewards/accuracies"] not in (0.0, 0.5, 1.0), "the case shows nothing"
        assert abs(before["rewards/margins"]) > 1e-2, "the case shows nothing"
        if not args.label_smoothing:  # -log s(-m) = -log s(m) + m
            _near(after["loss"], before["loss"] + before["rewards/margins"])
        shown(f"swapped {changed}")


def _exchanged(one: dict[str, Any]) -> dict[str, Any]:
    swap = {"chosen": "rejected", "rejected": "chosen"}
    return {f"{swap[k.partition('_')[0]]}_{k.partition('_')[2]}": v for k, v in one.items()}


def _exchange(values: Any, sizes: list[int]) -> Any:
    """Put the rejected texts' values before those of the chosen; padding stays behind."""
    dim = 0 if values.shape[0] == sum(sizes) else 1
    first, second, rest = values.split([*sizes, values.shape[dim] - sum(sizes)], dim)
    return torch.cat([second, first, rest], dim)


def _reported(own: Any, upstream: Any, args: Any, rows: Any, policy: Any, ref: Any) -> Any:
    """Return what ``metrics.jsonl`` has of a step of two microbatches; both trainers agree."""
    labels, packed = texts(rows, args)
    mine = trainer(own.PrecomputedDPOTrainer, upstream, args)
    theirs = trainer(upstream.MegatronDPOTrainer, upstream, args)
    given = {"labels": labels, "packed_seq_params": packed}
    stored = own.sums(ref, labels, own.bounds_of(packed)).view(2, -1)
    _, metric = mine.loss_func(policy, **given, reference=stored)
    _, same = theirs.loss_func(torch.cat([ref, policy]), **given)
    found = []
    for each in (metric, same):
        names, means = device.means([each, each])
        clock = Clock(step=1, total=2, attempt=1, time=0.0, seconds=1.0, other_seconds=0.0)
        values = dict(zip(names, means.tolist(), strict=True))
        kept = parse(line(metrics_step.row(clock, world=1, values=values)))
        assert kept is not None
        found.append(kept.values)
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        _near(value, found[1][name])
    return found[0]


def _near(one: Any, other: Any) -> None:
    assert math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6), (one, other)


def texts(rows: list[Any], args: Any) -> tuple[Any, Any]:
    """Return labels and packed parameters of some pairs, behind or below each other."""
    batch = collate([rows])
    lens = batch["seq_lens"]
    if args.padding_free:
        params = packed_params(args, batch["position_ids"])
        params.seq_lens = torch.tensor(lens)
        return batch["labels"].roll(-1, -1), params
    width = max(lens)
    both = [r[f"{side}_labels"] for side in ("chosen", "rejected") for r in rows]
    return torch.tensor([one + [-100] * (width - len(one)) for one in both]), None


def passes(own: Any, upstream: Any, home: Path) -> None:
    """Take the log-probabilities, train with them, resume, and do without the store."""
    os.environ["DPO_RUN_FOLDER"] = str(home)
    chance = torch.Generator().manual_seed(4)
    packs = [[row(chance) for _ in range(size)] for size in (2, 1, 3, 2)]
    val = [[row(chance)]]
    run = trainer(own.PrecomputedDPOTrainer, upstream, options(home))
    model = run.unwrapped_models[0]
    model.train()
    state = torch.random.get_rng_state()
    model.dies_after = 2
    killed = own_pass.ROUND, writer.FLUSH_SECONDS
    own_pass.ROUND, writer.FLUSH_SECONDS = 1, -1.0  # each micro-batch is written at once
    with contextlib.suppress(KeyboardInterrupt):
        own.take(run, [packs, val])
    model.dies_after = 10**9
    assert model.training and len(model.seen) == 2
    pairs = own.take(run, [packs, val])
    assert len(model.seen) == len(packs) + len(val), "the pass begins anew after a kill"
    own_pass.ROUND, writer.FLUSH_SECONDS = killed
    shown("a killed pass resumes")
    assert all(seen == (False, False) for seen in model.seen), model.seen
    assert model.training and CALLS == ["off {'param_sync': False}", "on"] * 2, CALLS
    assert torch.equal(state, torch.random.get_rng_state())
    shown("the model is in the state of a reference, and then as it was")
    for one in [r for pack in [*packs, *val] for r in pack]:
        assert own.pair_id(one) in pairs
        expected = [direct(model, one, side) for side in ("chosen", "rejected")]
        torch.testing.assert_close(torch.tensor(pairs[own.pair_id(one)]), torch.tensor(expected))
    shown("values are those of each text by itself")
    train(own, run, packs, pairs)
    resumed(own, run, packs, val, home)


def direct(model: Policy, one: dict[str, list[int]], side: str) -> float:
    """Sum a text's log-probabilities by hand."""
    ids, labels = one[f"{side}_input_ids"], one[f"{side}_labels"]
    table = torch.log_softmax(model.table.weight.detach(), -1)
    steps = zip(ids, labels[1:], strict=False)  # a token is asked for the next one's label
    return sum(float(table[now, after]) for now, after in steps if after != -100)


def train(own: Any, run: Any, packs: list[Any], pairs: Any) -> None:
    """Make the first step's loss of a batch that the collator has made."""
    run.unwrapped_models[0].eval()
    data = own.Collator(collate, pairs)(packs[:1])
    output, loss_func = run.forward_step(iter([data]), run.wrapped_models[0])
    loss, metric = loss_func(output)
    assert abs(loss.item() - math.log(2)) < 1e-6, loss
    assert float(metric["rewards/chosen"].abs()) < 1e-5
    shown("the first loss is ln 2")
    run.unwrapped_models[0].train()
    loader = torch.utils.data.DataLoader(
        [[row(torch.Generator().manual_seed(9))]],
        collate_fn=own.Collator(collate, pairs),
        num_workers=1,
    )
    try:
        next(iter(loader))
    except Exception as error:  # of a worker: torch raises another one with its traceback
        found = verdict("".join(traceback.format_exception(error)), started=True)
        assert found is not None and found.code == Exit.DATA, found
        assert "LaunchError: pair " in found.cause
        assert "has no reference log-probability" in found.cause
        shown("an unknown pair ends the run with its id")


def resumed(own: Any, run: Any, packs: list[Any], val: list[Any], home: Path) -> None:
    """Resume with the store, and without."""
    model = run.unwrapped_models[0]
    model.seen.clear()
    run.state.iteration = 3
    assert len(own.take(run, [packs, val])) == sum(map(len, [*packs, *val]))
    assert model.seen == []
    shown("a resumed run reads the store")
    shutil.rmtree(home / "reference")
    try:
        own.take(run, [packs, val])
    except LaunchError as error:
        assert error.id == "reference-too-late" and model.seen == []
        assert error.code == Exit.CONFIG
        shown("a resumed run without the store is refused")


if __name__ == "__main__":
    megatron_free.enter()
    theirs = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    writer: Any = importlib.import_module("launchers.reference.part_writer")
    loading: Any = importlib.import_module("launchers.training.loading")
    loading.install("reference")
    own_pass: Any = importlib.import_module("launchers.reference.forward_pass")
    ours = importlib.import_module("launchers.reference.trainer")
    named = importlib.import_module("swift.megatron.trainers").MegatronDPOTrainer
    assert named is ours.PrecomputedDPOTrainer
    shown("ms-swift finds our trainer")
    with tempfile.TemporaryDirectory() as scratch:
        dist.init_process_group("gloo", init_method=f"file://{scratch}/s", rank=0, world_size=1)
        swapped(ours, theirs, Path(scratch) / "swapped")
        losses(ours, theirs, Path(scratch) / "losses")
        passes(ours, theirs, Path(scratch) / "run")
        dist.destroy_process_group()
    edge.end()
