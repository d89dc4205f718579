"""Record each pair that ms-swift's Megatron trainer trains with DPO."""

from megatron.core import mpu
from swift.megatron.callbacks.base import MegatronCallback

from launchers.training.collect.batch_rows import CURRENT
from launchers.training.ledger.recorder import Recorder


class LedgerCallback(MegatronCallback):  # type: ignore[misc]
    """Keeps the pairs of each step; they are written before each checkpoint and at the end."""

    def on_train_begin(self) -> None:
        """Wrap the functions by which the trainer computes a loss and saves."""
        trainer, done = self.trainer, self.state.iteration
        same = mpu.get_tensor_model_parallel_rank(), mpu.get_context_parallel_rank()
        self.ledger = Recorder(self.args.output_dir, done, counts=same == (0, 0))
        model, inner = trainer.unwrapped_models[0], trainer.dummy_dpo_trainer
        inner.dpo_loss = self.ledger.measuring(inner.dpo_loss, lambda: bool(model.training))
        trainer.save_checkpoint = self.ledger.before(trainer.save_checkpoint)

    def on_step_begin(self) -> None:
        """Note the packs that were trained before the step."""
        self.consumed = self.state.consumed_train_samples

    def on_step_end(self) -> None:
        """Keep the pairs of a step; it may begin in one epoch and end in the next."""
        each = self.args.micro_batch_size * mpu.get_data_parallel_world_size()
        total = len(CURRENT.dataset) if CURRENT.dataset is not None else 0
        usable = max(total // each * each, 1)  # upstream drops what does not fill a round
        self.ledger.end_step(self.state.iteration, lambda n: (self.consumed + n * each) // usable)

    def on_train_end(self) -> None:
        """Write the pairs after the last checkpoint."""
        self.ledger.flush()
