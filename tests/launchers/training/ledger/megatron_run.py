"""Two data-parallel ranks around the Megatron callback of the ledger, with torch on CPU.

megatron-core does not import without a GPU: trainer, sampler and packs are stand-ins, with the
names and the order of calls of ms-swift 4.4.1 ``trainers/base.py: run_train_step``. The pairs of a
pack have log-probabilities that name them.
"""

import os
import sys
import types
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset

from launchers.training.installed import INSTALLED
from tests.launchers.training import stand_ins

PACKS = [[0, 1, 2], [3], [4, 5], [6], [7], [8], [9]]
"""Pairs of each pack; of two ranks with a pack each one pack of an epoch is left out."""
RANKS, USABLE = 2, 6


class Callback:
    """ms-swift's ``MegatronCallback``."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.args, self.state = trainer, trainer.args, trainer.state


class Counted(Dataset):  # type: ignore[misc]
    """Rows of the cache that count how often all of them are read."""

    reads = 0

    def select_columns(self, *given: Any) -> Any:
        Counted.reads += 1
        return super().select_columns(*given)


class Packed:
    """ms-swift's ``PackingDataset`` of rows of the cache of tokens."""

    def __init__(self) -> None:
        self.packed_idx = PACKS
        rows = {"dpo_row": [100 + n for n in range(10)], "dpo_file": ["a"] * 4 + ["b"] * 6}
        self.dataset = Counted.from_dict(rows)

    def __len__(self) -> int:
        return len(self.packed_idx)


class Loss:
    """ms-swift's ``DummyDPOTrainer``."""

    def dpo_loss(self, chosen: Any, rejected: Any, own: Any, other: Any) -> Any:
        return chosen, 0.1 * (chosen - own), 0.1 * (rejected - other)


class Trainer:
    """ms-swift's trainer: a step reads two microbatches of one pack on each rank."""

    def __init__(self, home: Path, resumed: int) -> None:
        self.args = types.SimpleNamespace(output_dir=str(home), micro_batch_size=1)
        consumed = 4 * resumed
        self.state = types.SimpleNamespace(iteration=resumed, consumed_train_samples=consumed)
        self.unwrapped_models = [torch.nn.Linear(1, 1)]
        self.dummy_dpo_trainer = Loss()
        self.saved: list[list[str]] = []
        self.home = home

    def save_checkpoint(self) -> None:
        self.saved.append(sorted(path.name for path in (self.home / "pairs").glob("*.parquet")))

    def loss(self, pack: int) -> None:
        pairs = torch.tensor([float(each) for each in PACKS[pack]])
        self.dummy_dpo_trainer.dpo_loss(-pairs, -pairs - 2, -pairs - 1, -pairs - 1)

    def step(self, callback: Any, rows: Any) -> None:
        callback.on_step_begin()
        for _ in range(2):
            consumed = self.state.consumed_train_samples
            rows.drawn.append([consumed % USABLE + dist.get_rank()])  # each epoch in the same order
            self.loss(rows.drawn[-1][0])
            self.state.consumed_train_samples += RANKS
        self.state.iteration += 1
        rows.count = 2
        callback.on_step_end()
        rows.end()


def main() -> None:
    """Train steps 1 to 3, with a checkpoint after 2; then again from it, to step 4."""
    home = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    mpu = types.SimpleNamespace(
        get_tensor_model_parallel_rank=lambda: 0,
        get_context_parallel_rank=lambda: 0,
        get_data_parallel_world_size=lambda: RANKS,
    )
    stand_ins.install(
        {
            "megatron.core": {"mpu": mpu},
            "swift.dataset": dict.fromkeys(("EncodePreprocessor", "RowPreprocessor"), Row),
            "swift.dataset.loader": {"DatasetLoader": Row},
            "swift.template": {"MaxLengthError": ValueError},
            "swift.utils": {"get_logger": lambda: None},
            "swift.megatron.callbacks.base": {"MegatronCallback": Callback},
        }
    )
    from launchers.training.collect.batch_rows import CURRENT
    from launchers.training.ledger import ledger_megatron

    INSTALLED.extend(sys.argv[2:])
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    CURRENT.dataset = Packed()
    for resumed, steps in ((0, 3), (2, 4)):
        trainer = Trainer(home, resumed)
        callback = ledger_megatron.LedgerCallback(trainer)
        callback.on_train_begin()
        trainer.unwrapped_models[0].eval()
        trainer.loss(4)  # an evaluation
        trainer.unwrapped_models[0].train()
        while trainer.state.iteration < steps:
            trainer.step(callback, CURRENT)
            if trainer.state.iteration == 2:
                trainer.save_checkpoint()
        callback.on_train_end()
        print(f"SAVED {trainer.saved} READ {Counted.reads}")
        Counted.reads = 0
    dist.destroy_process_group()


class Row:
    """What the cache of tokens takes from ms-swift; nothing here tokenises."""

    batched_preprocess = load = __call__ = None


if __name__ == "__main__":
    main()
