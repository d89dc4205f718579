"""A user's plugin that makes transformers' saves and evaluations slow, and says when they begin."""

import os
import time
from pathlib import Path
from typing import Any

import transformers
from transformers.trainer_callback import CallbackHandler

SAVE, EVALUATION, STEP = (
    float(os.environ.get(f"SLOW_{name}", "0")) for name in ("SAVE", "EVALUATION", "STEP")
)
SIGNS = Path(os.environ.get("SLOW_SIGNS", os.devnull))
_save = transformers.Trainer._save_checkpoint
_predict = CallbackHandler.on_prediction_step
_train = transformers.Trainer.training_step


def note(sign: str) -> None:
    if SIGNS.is_dir():
        (SIGNS / f"{sign}-{os.environ['RANK']}").touch()


def save(self: Any, *args: Any, **kwargs: Any) -> Any:
    result = _save(self, *args, **kwargs)
    note(f"save-{self.state.global_step}")
    time.sleep(SAVE)
    return result


def predict(self: Any, args: Any, state: Any, *more: Any, **kwargs: Any) -> Any:
    """Take a while in each batch of an evaluation, but not before the first step."""
    result = _predict(self, args, state, *more, **kwargs)
    note(f"evaluation-{state.global_step}")
    time.sleep(EVALUATION if state.global_step else 0)
    return result


def train(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Take a while in each step, and wait as long as a test holds the steps."""
    time.sleep(STEP)
    while (SIGNS / "hold").exists():
        time.sleep(0.02)
    return _train(self, *args, **kwargs)


transformers.Trainer._save_checkpoint = save
CallbackHandler.on_prediction_step = predict
transformers.Trainer.training_step = train
