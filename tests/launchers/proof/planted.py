"""Patches broken on purpose, each in one way; run by the training Python.

``planted FOLDER``: for each fault the case of its patch is run as ``patches --prove`` runs it, and
a line of JSON says what was found. ``planted HOME JOBS`` is the process that runs the cases.
"""

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launchers.proof import prove

PAIRS, PACKING = "launchers.training.packs.pair_weights", "launchers.training.packs.packing"


def wrapped(module: str, owner: str, name: str, change: Callable[..., Any]) -> None:
    """Replace a function by ``change``, which is given it first."""
    found: Any = importlib.import_module(module)
    for each in filter(None, owner.split(".")):
        found = getattr(found, each)
    inner = getattr(found, name)

    @functools.wraps(inner)
    def replaced(*given: Any, **named: Any) -> Any:
        return change(inner, *given, **named)

    setattr(found, name, replaced)


def scale() -> None:
    """The loss of equal pairs has twice its scale."""
    wrapped(PAIRS, "EqualPairsDPOTrainer", "_scaled", lambda inner, *given: 2 * inner(*given))


def pair() -> None:
    """The gradient of the last pair of a microbatch is dropped."""
    wrapped(PAIRS, "EqualPairsDPOTrainer", "_scaled", lambda inner, own, all: inner(own, all[:-1]))


def order() -> None:
    """A pack takes the place of another."""

    def twice(inner: Any, self: Any) -> Any:
        for packs in inner(self):
            yield [0 for _ in packs]

    wrapped(PACKING, "DealtSampler", "__iter__", twice)


def count() -> None:
    """A microbatch's tokens are not counted."""
    reading: Any = importlib.import_module("launchers.training.collect.reading")
    add = reading.Tally.add
    seen: list[Any] = []

    def losing(self: Any, *given: Any, **named: Any) -> Any:
        seen.append(given)
        return None if len(seen) == 2 else add(self, *given, **named)

    reading.Tally.add = losing


def save() -> None:
    """A save in the background writes other numbers."""

    def copy(inner: Any, self: Any, files: Any, *given: Any) -> Any:
        changed = [
            (
                *each[:3],
                [
                    (item, tensor + 1 if tensor.is_floating_point() else tensor)
                    for item, tensor in each[3]
                ],
            )
            for each in files
        ]
        return inner(self, changed, *given)

    wrapped("launchers.training.saving.background", "Writes", "copy", copy)


def reference() -> None:
    """The reference's log-probabilities are of another model."""

    def moved(inner: Any, self: Any, batch: Any) -> Any:
        made = inner(self, batch)
        policy = importlib.import_module("launchers.reference.policy")
        return {**made, policy.KEY: made[policy.KEY] + 0.5}

    wrapped("launchers.reference.trainer", "Collator", "__call__", moved)


def weights() -> None:
    """The weights that are read once are not those of the files in the second model."""

    def copy(inner: Any, source: Any, target: Any) -> Any:
        found = inner(source, target)
        next(target[0].parameters()).data.mul_(1.5)
        return found

    wrapped("launchers.training.weight_loading", "", "copy", copy)


def filler() -> None:
    """Filler counts as text in the experts' balancing loss."""
    wrapped(
        "launchers.training.experts.filler_mask",
        "",
        "mask",
        lambda inner, real, tokens, device: inner(tokens, tokens, device),
    )


def window() -> None:
    """A window's losses are divided by one microbatch too many."""

    def more(inner: Any, self: Any, *given: Any, **named: Any) -> Any:
        found = inner(self, *given, **named)
        self.dpo_microbatches += 1
        return found

    wrapped("launchers.training.epochs.partial_window", "", "get_batch_samples", more)


def epoch() -> None:
    """A loader does not learn its epoch."""
    wrapped("launchers.training.epochs.order", "", "set_epoch", lambda inner, self, epoch: None)


def held_out() -> None:
    """An evaluation leaves out rows."""

    def evaluate(inner: Any, self: Any, data: Any) -> Any:
        self.args.held_out_microbatches -= 1
        return inner(self, data)

    wrapped("launchers.evaluation.evaluation_megatron", "", "evaluate", evaluate)


def tokens() -> None:
    """The cache of tokens loses the last token of each chosen answer."""

    def stored(inner: Any, row: Any, *given: Any, **named: Any) -> Any:
        found = inner(row, *given, **named)
        found["chosen_input_ids"] = [*found["chosen_input_ids"][:-1], 7]
        return found

    wrapped("launchers.training.tokens.cache", "", "_stored", stored)


FAULTS = {
    scale: "pair_weights",
    pair: "pair_weights",
    order: "packing",
    count: "metrics_megatron",
    save: "background_save",
    reference: "reference",
    weights: "one_read",
    filler: "filler_mask",
    held_out: "evaluation",
    tokens: "tokens",
    window: "partial_window",
    epoch: "epoch_order",
}
BY_NAME = {fault.__name__: fault for fault in FAULTS}


def main() -> None:
    """Run a process of cases, or judge all faults."""
    if len(sys.argv) == 3:
        run, trace = (importlib.import_module(f"launchers.proof.{n}") for n in ("run", "trace"))
        inner = trace.train

        def train(job: Any, home: Path) -> Any:
            if fault := BY_NAME.get(job.get("fault", "")):
                fault()
            return inner(job, home)

        vars(trace)["train"] = train
        run.main()
        return
    vars(prove)["RUN"] = "tests.launchers.proof.planted"
    folder, pairs = Path(sys.argv[1]), dict[str, tuple[Any, Any]]()
    for fault, feature in FAULTS.items():
        base, ours = prove.jobs(folder, [feature])
        name = f"{ours['name']}-{fault.__name__}"
        pairs[fault.__name__] = base, {**ours, "fault": fault.__name__, "name": name}
    prove.run(folder, os.environ, [job for pair in pairs.values() for job in pair])
    for fault, feature in FAULTS.items():
        found = prove.judged(folder, [feature], pairs[fault.__name__])
        print(json.dumps({fault.__name__: found}), flush=True)


if __name__ == "__main__":
    main()
