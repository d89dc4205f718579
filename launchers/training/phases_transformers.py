"""Loaded into ms-swift's transformers trainer: notes when each phase of the start ended.

The order is that of ``swift/pipelines/train/sft.py`` of ms-swift 4.4.1; see
``swift_phases_megatron``.
"""

import os
from typing import Any

from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map
from swift.pipelines.train.sft import SwiftSft

from launchers.progress.phases import marks_of

MARKS = marks_of(os.environ)
MARKS.mark("imports")


class PhasesCallback(TrainerCallback):  # type: ignore[misc]
    """Notes the first two steps."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The trainer is whole."""
        MARKS.mark("trainer")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the first two steps."""
        MARKS.step()


callbacks_map["phases"] = PhasesCallback
SwiftSft._set_seed = MARKS.entering("arguments", SwiftSft._set_seed)  # follows parsing
SwiftSft._prepare_model_tokenizer = MARKS.ending("models", SwiftSft._prepare_model_tokenizer)
SwiftSft._prepare_dataset = MARKS.ending("dataset", SwiftSft._prepare_dataset)
