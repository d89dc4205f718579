"""Record each pair that ms-swift's transformers trainer trains with DPO."""

from typing import Any

import torch.distributed as dist
from swift.callbacks.base import TrainerCallback

from launchers.training.ledger.recorder import Recorder


class LedgerCallback(TrainerCallback):  # type: ignore[misc]
    """Keeps the pairs of each step; they are written before each checkpoint and at the end."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wrap the functions by which the trainer computes a loss and saves."""
        trainer, self.epoch = self.trainer, 0
        shared = getattr(trainer.template, "sequence_parallel_size", 1) or 1
        counts = not dist.is_initialized() or dist.get_rank() % shared == 0
        self.ledger = Recorder(args.output_dir, state.global_step, counts=counts)
        trainer.dpo_loss = self.ledger.measuring(trainer.dpo_loss, lambda: trainer.model.training)
        trainer._save_checkpoint = self.ledger.before(trainer._save_checkpoint)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the epoch; that of a resumed run begins within it."""
        self.epoch = int((state.epoch or 0) + 1e-6)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep the pairs of a step."""
        self.ledger.end_step(state.global_step, lambda _: self.epoch)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the pairs after the last checkpoint."""
        self.ledger.flush()
