"""The probe's log-probabilities of ms-swift's own Megatron trainer; two ranks on CPU.

The trainer and its schedule are ms-swift's and Megatron's stand-in, the model is a table. Each case
that holds prints its name.
"""

import importlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from launchers.stop import finished
from tests.launchers.evaluation.evaluation_edge import packs, replicas, with_reference
from tests.launchers.reference import megatron_free
from tests.launchers.training import edge
from tests.launchers.training.edge import shown


class Letters:
    """A tokenizer without a chat template."""

    eos_token = "."

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(word) for word in text.split()]


class Unread:
    """Rows that the second rank cannot read."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _: int) -> Any:
        return packs()[1 // (1 - dist.get_rank())]


def by_hand(run: Any, ids: list[int], labels: list[int]) -> float:
    """Return a text's sum: the table says what a label costs after a token, in eval mode."""
    table = run.unwrapped_models[0].table.weight.double()[torch.tensor(ids)].log_softmax(-1)
    return sum(float(table[n - 1, label]) for n, label in enumerate(labels) if label != -100)


def recorded(home: Path, upstream: Any, probe: Any) -> None:
    run = with_reference(upstream.MegatronDPOTrainer, upstream, home)
    del run.plain_collator  # of our own trainer alone
    run.template = SimpleNamespace(tokenizer=Letters())
    state = torch.random.get_rng_state()
    warned: list[Any] = []
    probe.logs.warning = lambda *said, **why: warned.append((said, why))
    probe.record(run, packs(), 7, 7, probe.of_megatron)
    dist.barrier()
    assert not warned, warned
    found = json.loads((home / "probe-7.json").read_text())
    rows = [row for pack in packs() for row in pack]
    assert len(found["pairs"]) == len(rows) == 18
    for pair, row in zip(found["pairs"], rows, strict=True):
        assert all(pair[name] == row[name] for name in row)
        for side, value in zip(("chosen", "rejected"), pair["sums"], strict=True):
            wanted = by_hand(run, row[f"{side}_input_ids"], row[f"{side}_labels"])
            assert abs(value - wanted) < 1e-4, (value, wanted)
    shown("each held-out pair has the sums of the trainer's forward pass, from both replicas")
    assert found["held_out"] and found["weights"] == "float32" and not found["narrow"]
    assert run.wrapped_models[0].training
    assert torch.equal(state, torch.random.get_rng_state())
    shown("training continues as without it")
    probe.record(run, packs(), 5, 7, probe.of_megatron)
    assert not (home / "probe-5.json").exists()
    os.environ[probe.EXPORT_VARIABLE] = "best"
    probe.record(run, packs(), 5, 7, probe.of_megatron)
    dist.barrier()
    assert (home / "probe-5.json").exists()
    shown("steps before the last are recorded only where the best is exported")
    fails = [lambda *_: 1 / 0, lambda *_: 1 / (1 - dist.get_rank()) and []]
    for held_out, score in [
        *((packs(), each) for each in fails),
        (Unread(), lambda *_: dist.barrier()),
    ]:
        probe.record(run, held_out, 6, 7, score)
        dist.barrier()
        assert not (home / "probe-6.json").exists() and run.wrapped_models[0].training
        assert "ZeroDivisionError" in str(warned.pop())
    shown("a failure on all ranks or on one does not end training")
    del os.environ[probe.EXPORT_VARIABLE]
    finished.note_ending()
    probe.record(run, packs(), 4, 7, probe.of_megatron)
    dist.barrier()
    assert (home / "probe-4.json").exists()
    shown("the step at which a budget ends the run is recorded")


def resumed(probe: Any) -> None:
    """A run of the transformers trainer resumes at the last step, which it has saved."""
    steps: list[int] = []
    probe.record = lambda trainer, rows, step, *_: steps.append(step)
    probe._install_transformers(is_wanted=True)
    made = importlib.import_module("swift.callbacks.mapping").callbacks_map["probe"]
    callback = made.__new__(made)
    callback.trainer = SimpleNamespace(eval_dataset=None)
    for step in (0, 7):
        callback.on_train_begin(None, SimpleNamespace(global_step=step, max_steps=7), None)
    assert steps == [0, 7]
    shown("the last step is recorded by the attempt that resumes at it")


if __name__ == "__main__":
    megatron_free.enter()
    home = replicas()
    megatron: Any = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    os.environ["DPO_RUN_FOLDER"] = str(home)
    own = importlib.import_module("launchers.evaluation.probe")
    recorded(home, megatron, own)
    resumed(own)
    edge.end()
