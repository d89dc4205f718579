"""Save and stop on request in ms-swift's transformers trainer.

The callback runs after transformers' ``DefaultFlowCallback``, which decides after each step whether
to evaluate and to save, and after the callback ``seal``.
"""

import os
from typing import Any

from swift.callbacks.base import TrainerCallback
from swift.callbacks.mapping import callbacks_map

from launchers.evaluation import owed
from launchers.stop.boundary import Boundary
from launchers.stop.leave import await_seal, finish, from_rank_0, leave


class StopCallback(TrainerCallback):  # type: ignore[misc]
    """Saves and ends training where the launcher asks for it."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the first boundary."""
        self._boundary, self._stops = Boundary(os.environ, from_rank_0), False
        self._boundary.begin(state.global_step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End training if it has resumed from the last step: the trainer would make one more."""
        if state.global_step >= state.max_steps:
            finish(lambda: self.trainer.callback_handler.on_train_end(args, state, control))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look at the time, then for a request."""
        if self._boundary.is_save_due(state.global_step):
            control.should_save = True
        self._stops = self._boundary.end_step(
            state.global_step,
            saves=control.should_save,
            is_last=_is_last(state, control),
            evaluates=control.should_evaluate,
        )
        if self._stops:
            if control.should_evaluate:
                owed.note()
            control.should_log, control.should_evaluate, control.should_save = True, False, True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note that an evaluation begins."""
        if control.should_evaluate:
            self._boundary.begin_evaluation(state.global_step)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save and stop after a batch of an evaluation, if the launcher asks for it.

        All ranks have gathered this batch, and the trainer's own save needs nothing that an
        evaluation changes, so it is called from here; the rest of the evaluation is left out.
        """
        if self._boundary.end_batch(state.global_step):
            self._stops, trainer = True, self.trainer
            owed.note()
            trainer._save_checkpoint(trainer.model, None)
            trainer.callback_handler.on_save(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note that it has ended; let the trainer save if the launcher asks for a stop."""
        last, saves = _is_last(state, control), control.should_save
        if self._boundary.end_evaluation(state.global_step, saves=saves, is_last=last):
            self._stops = control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop if the launcher asks for it: the callback ``seal`` has run."""
        if _is_last(state, control) and not self._stops:
            return  # training ends by itself
        await_seal()
        step = state.global_step
        if self._boundary.end_save(step, stops=self._stops):
            handler = self.trainer.callback_handler
            leave(self._boundary, step, lambda: handler.on_train_end(args, state, control))


def _is_last(state: Any, control: Any) -> bool:
    return bool(control.should_training_stop or state.global_step >= state.max_steps)


def install() -> None:
    """Register the callback ``stop``."""
    callbacks_map["stop"] = StopCallback
