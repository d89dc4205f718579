"""Merge an adapter with the model in the last checkpoint only.

By default ms-swift writes the whole merged model next to every checkpoint of an adapter
(``swift/megatron/trainers/base.py``, ``save_checkpoint``): 61 GB for Qwen3-30B-A3B, while the
adapter with its optimizer takes 5 GB. For that it adds the adapter to the bf16 weights and
subtracts it again (``mcore_bridge/tuners/lora.py``, ``merge``), which does not restore the weights
exactly: model and reference would drift with every save.
"""

from functools import partial
from typing import Any

from swift.megatron.callbacks.base import MegatronCallback

from launchers.stop import finished


class MergeLastCallback(MegatronCallback):  # type: ignore[misc]
    """Decides before each save whether it merges."""

    def __init__(self, trainer: Any) -> None:
        """Merge in a save that ends the run early, too: it is decided after ``on_step_end``."""
        super().__init__(trainer)
        finished.before_ending(partial(setattr, self.args, "merge_lora", True))

    def on_step_end(self) -> None:
        """Merge in the last step of the run."""
        self.args.merge_lora = self.state.iteration >= self.args.train_iters
