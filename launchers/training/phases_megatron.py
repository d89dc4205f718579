"""Loaded into ms-swift's Megatron trainer: notes when each phase of the start ended.

The plugins are imported while the arguments are parsed, before model and trainer exist
(``swift/arguments/base_args/base_args.py: _import_external_plugins``), so this import itself ends
the phase ``imports``. The order of the rest is that of ``swift/megatron/pipelines/train/sft.py``
and ``swift/megatron/trainers/base.py: __init__``, ms-swift 4.4.1.
"""

import os

from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from swift.megatron.pipelines.train.sft import MegatronSft
from swift.megatron.trainers.base import BaseMegatronTrainer

from launchers.progress.phases import marks_of

MARKS = marks_of(os.environ)
MARKS.mark("imports")


class PhasesCallback(MegatronCallback):  # type: ignore[misc]
    """Notes the first batch and the first two steps."""

    def on_train_begin(self) -> None:
        """The trainer is whole; the data loader is made next, and its first batch fetched."""
        MARKS.mark("trainer")
        self.trainer.get_batch = MARKS.ending("first_batch", self.trainer.get_batch)

    def on_step_end(self) -> None:
        """Note the first two steps: the optimizer's step has waited for the GPU's norm by then."""
        MARKS.step()


megatron_callbacks_map["phases"] = PhasesCallback
MegatronSft._set_seed = MARKS.entering("arguments", MegatronSft._set_seed)  # follows parsing
MegatronSft._prepare_template = MARKS.ending("template", MegatronSft._prepare_template)
MegatronSft._prepare_dataset = MARKS.ending("dataset", MegatronSft._prepare_dataset)
_Trainer = BaseMegatronTrainer
_Trainer._prepare_peft_model = MARKS.entering("policy_built", _Trainer._prepare_peft_model)
_Trainer.prepare_model = MARKS.ending("policy", _Trainer.prepare_model)
# by then a trainer with a reference has built and read that, too
_Trainer.get_optimizer_and_scheduler = MARKS.ending(
    "optimizer", MARKS.entering("reference", _Trainer.get_optimizer_and_scheduler)
)
_Trainer._load_checkpoint = MARKS.ending("checkpoint", _Trainer._load_checkpoint)
