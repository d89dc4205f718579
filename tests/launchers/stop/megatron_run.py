"""One rank of a Megatron run on CPU: ms-swift's own flow callback, and a trainer that stands in.

``torchrun -m tests.launchers.stop.megatron_run CASE`` with ``DPO_STEP_BOARD``, ``FOLDER``
and ``PARTS``, the parts of an evaluation. megatron-core does not import without a GPU; the trainer
here calls the callbacks in the order of ms-swift 4.4.1 ``swift/megatron/trainers/base.py``,
``run_train_step``.
"""

import importlib
import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import swift
import torch.distributed as dist

from launchers.evaluation import owed
from launchers.evaluation.rounds import in_parts
from launchers.flags.features import SAVE_VARIABLE
from launchers.stop import finished
from tests.launchers.training import stand_ins

FOLDER, RANK = Path(os.environ["FOLDER"]), int(os.environ["RANK"])
PARTS = int(os.environ["PARTS"])
CASES: dict[str, dict[str, Any]] = {
    "step": {"train_iters": 100_000, "save_steps": 100_000},
    "save": {"train_iters": 100_000, "save_steps": 3, "save_seconds": 2.0},
    "evaluation": {"train_iters": 100_000, "save_steps": 100_000, "eval_steps": 3, "eval_iters": 1},
    "last evaluation": {"train_iters": 3, "save_steps": 100_000, "eval_iters": 1},
    "first evaluation": {"train_iters": 3, "save_steps": 100_000},
    "time": {"train_iters": 100_000, "save_steps": 100_000, "save_seconds": 0.01},
    "last": {"train_iters": 4, "save_steps": 100_000, "save_seconds": 2.0},
}
ARGS: dict[str, Any] = {
    "global_batch_size": 8,
    "logging_steps": 1000,
    "eval_steps": 0,
    "eval_iters": 0,
    "save_total_limit": None,
    "manual_gc": False,
    "manual_gc_eval": False,
    "manual_gc_steps": 0,
    "save_safetensors": True,
    "merge_lora": False,
}


def flow() -> Any:
    """Install the feature around ms-swift's own callback; return the class that takes its place."""
    home, table = Path(swift.__file__).parent / "megatron", dict[str, Any]()
    stand_ins.install(
        {
            "swift.megatron.callbacks.mapping": {"megatron_callbacks_map": table},
            "swift.megatron.trainers.base": {"BaseMegatronTrainer": Trainer},
        }
    )
    for name, path in (("swift.megatron", home), ("swift.megatron.callbacks", home / "callbacks")):
        sys.modules[name].__path__ = [str(path)]
    for name in ("stop.stop_megatron", "training.saving.safetensors_last"):
        importlib.import_module(f"launchers.{name}").install()
    return table["default_flow"]


def recorder() -> Any:
    """Return the class of the callback ``seal`` without its seal."""
    base: Any = importlib.import_module("launchers.training.seal_megatron").SealCallback

    class Recorder(base):  # type: ignore[misc]
        def on_save(self, output_dir: str) -> None:
            if owed.is_noted():
                note("left", self.state.iteration)

    return Recorder


def note(event: str, step: int) -> None:
    with (FOLDER / f"rank-{RANK}").open("a") as stream:
        stream.write(json.dumps([event, step]) + "\n")


class Trainer:
    """The order of ms-swift's trainer."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = types.SimpleNamespace(**ARGS | {"save_seconds": 0.0} | args)
        self.state = types.SimpleNamespace(
            **{"iteration": 0, "consumed_train_samples": 0, "should_log": False},
            **{"should_eval": False, "should_save": False},
        )
        self.callbacks: list[Any] = []

    def call_event(self, event: str, **given: Any) -> None:
        if event == "on_train_end":
            note("closed", self.state.iteration)
        for callback in self.callbacks:
            getattr(callback, event)(**given)

    def step(self) -> None:
        """Run one step: a collective, then what the flow has decided."""
        state = self.state
        time.sleep(0.01 * RANK)
        dist.barrier()
        state.iteration += 1
        self.call_event("on_step_end")
        if state.should_log:
            state.should_log = False
            note("logged", state.iteration)
        if state.should_eval:
            state.should_eval = False
            self.evaluate()
        if state.should_save:
            state.should_save = False
            self.save_checkpoint()
            self.call_event("on_save", output_dir=state.last_model_checkpoint)

    def evaluate(self) -> None:
        """Evaluate in parts, as ``evaluation/megatron.py`` does; each part is a collective."""
        self.call_event("on_eval_begin")
        schedule = in_parts(self.part, 1, self.callbacks)
        schedule(num_microbatches=PARTS)
        self.call_event("on_eval_step")
        note("evaluated", self.state.iteration)
        time.sleep(1.0)  # the trainer logs
        self.call_event("on_eval_end")

    def part(self, *, num_microbatches: int) -> list[int]:
        """Run one part, rank 1 later than rank 0."""
        time.sleep(0.5 + 0.2 * RANK)
        dist.barrier()
        note("part", self.state.iteration)
        return [0] * num_microbatches

    def save_checkpoint(self) -> None:
        note("saving", self.state.iteration)
        time.sleep(self.args.save_seconds)
        dist.barrier()
        note("saved", self.state.iteration)
        if self.args.save_safetensors:
            note("weights", self.state.iteration)
        if self.args.merge_lora:
            note("merged", self.state.iteration)
        self.state.last_model_checkpoint = ""


def main() -> None:
    """Train until the flow stops this process, or to the last step."""
    finished.end_at_exit()
    dist.init_process_group("gloo")
    if sys.argv[1] == "time":
        os.environ[SAVE_VARIABLE] = "0.2" if RANK else "1.5"  # as clocks may differ
    made, trainer = flow(), Trainer(CASES[sys.argv[1]])
    merge: Any = importlib.import_module("launchers.training.merge_last").MergeLastCallback
    trainer.callbacks = [recorder()(trainer), merge(trainer), made(trainer)]
    trainer.call_event("on_train_begin")
    if sys.argv[1] == "first evaluation":
        trainer.evaluate()
    while trainer.state.iteration < trainer.args.train_iters:
        trainer.step()
    note("finished", trainer.state.iteration)
    trainer.call_event("on_train_end")


if __name__ == "__main__":
    main()
