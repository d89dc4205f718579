"""Loaded into Megatron training of an adapter: only the last checkpoint is merged with the model.

Unless told otherwise ms-swift writes the whole model beside every checkpoint of an adapter
(``swift/megatron/trainers/base.py``, ``save_checkpoint``): 61 GB for Qwen3-30B-A3B where the
adapter with its optimizer has five. For that it adds the adapter to the bf16 weights and subtracts
it again (``mcore_bridge/tuners/lora.py``, ``merge``): the weights do not come back to the last
digit, so that model and reference would move with every save.
"""

from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map


class MergeLastCallback(MegatronCallback):  # type: ignore[misc]
    """Says before each save whether it merges."""

    def on_step_end(self) -> None:
        """Merge in the last step of the run."""
        self.args.merge_lora = self.state.iteration >= self.args.train_iters


megatron_callbacks_map["merge_last"] = MergeLastCallback
