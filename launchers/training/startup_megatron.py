"""Note when each phase of a start ended, in ms-swift's Megatron trainer.

ms-swift imports plugins while it parses its arguments, before model and trainer exist
(``swift/arguments/base_args/base_args.py: _import_external_plugins``), so that the installation
itself ends the phase ``imports``. The order of the other phases is that of
``swift/megatron/pipelines/train/sft.py`` and ``swift/megatron/trainers/base.py: __init__``,
ms-swift 4.4.1.
"""

import os

from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from swift.megatron.pipelines.train.sft import MegatronSft
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers.progress.phases import Marks, marks_of


def install() -> None:
    """Mark the end of the phase ``imports``, and wrap the functions that end the others."""
    marks = marks_of(os.environ)
    marks.mark("imports")
    megatron_callbacks_map["phases"] = _callback(marks)
    sft, trainer = MegatronSft, BaseMegatronTrainer
    sft._set_seed = marks.entering("arguments", sft._set_seed)  # called right after parsing
    sft._prepare_template = marks.ending("template", sft._prepare_template)
    sft._prepare_dataset = marks.ending("dataset", sft._prepare_dataset)
    trainer._prepare_peft_model = marks.entering("policy_built", trainer._prepare_peft_model)
    trainer.prepare_model = marks.ending("policy", trainer.prepare_model)
    # a trainer with a reference has built and loaded that by then, too
    trainer.get_optimizer_and_scheduler = marks.ending(
        "optimizer", marks.entering("reference", trainer.get_optimizer_and_scheduler)
    )
    trainer._load_checkpoint = marks.ending("checkpoint", trainer._load_checkpoint)


def _callback(marks: Marks) -> type:
    class PhasesCallback(MegatronCallback):  # type: ignore[misc]
        """Marks the first batch and the first two steps."""

        def on_train_begin(self) -> None:
            """Mark the trainer's end; the data loader and its first batch follow."""
            marks.mark("trainer")
            self.trainer.get_batch = marks.ending("first_batch", self.trainer.get_batch)

        def on_step_end(self) -> None:
            """Mark a step; the optimizer has waited for the GPU's gradient norm by then."""
            marks.step()

    return PhasesCallback
