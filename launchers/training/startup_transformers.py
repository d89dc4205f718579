"""Note when each phase of a start ended, in ms-swift's transformers trainer.

The order is that of ``swift/pipelines/train/sft.py`` of ms-swift 4.4.1; see ``startup_megatron``.
"""

import os
from typing import Any

from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map
from swift.pipelines.train.sft import SwiftSft

from launchers.progress.phases import Marks, marks_of


def install() -> None:
    """Mark the end of the phase ``imports``, and wrap the functions that end the others."""
    marks = marks_of(os.environ)
    marks.mark("imports")
    callbacks_map["phases"] = _callback(marks)
    SwiftSft._set_seed = marks.entering("arguments", SwiftSft._set_seed)  # right after parsing
    SwiftSft._prepare_model_tokenizer = marks.ending("models", SwiftSft._prepare_model_tokenizer)
    SwiftSft._prepare_dataset = marks.ending("dataset", SwiftSft._prepare_dataset)


def _callback(marks: Marks) -> type:
    class PhasesCallback(TrainerCallback):  # type: ignore[misc]
        """Marks the first two steps."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Mark the end of the trainer's construction."""
            marks.mark("trainer")

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Mark a step."""
            marks.step()

    return PhasesCallback
