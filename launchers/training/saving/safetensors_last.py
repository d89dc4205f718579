"""Write safetensors at the last save only.

ms-swift writes the weights of each checkpoint twice: in Megatron's shards, from which a run
resumes, and as safetensors, from which the run's end is exported. These are gathered and written by
rank 0's process while training waits. Only the last checkpoint is exported, unless
``recipe.export`` is ``best``; ``recipe.args.save_safetensors: true`` writes all.
"""

from collections.abc import Callable
from typing import Any

from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers.stop import finished


def save_checkpoint(self: Any, save: Callable[[Any], None]) -> None:
    """Save as upstream, without safetensors unless the run ends with this step."""
    args = self.args
    given = args.save_safetensors
    args.save_safetensors = given and finished.is_last(self.state.iteration, args.train_iters)
    try:
        save(self)
    finally:
        args.save_safetensors = given


def install() -> None:
    """Replace the trainer's method."""
    save = BaseMegatronTrainer.save_checkpoint  # as features before have left it
    BaseMegatronTrainer.save_checkpoint = lambda self: save_checkpoint(self, save)
