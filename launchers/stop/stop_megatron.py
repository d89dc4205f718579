"""Save and stop on request in ms-swift's Megatron trainer.

Its own ``default_flow`` decides after each step what the trainer does next: it is the last callback
but the trackers, so that the callback ``seal`` runs before it. The class here takes its place.
"""

import os
from typing import Any

from swift.megatron.callbacks.default_flow import DefaultFlowCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from launchers.evaluation import owed
from launchers.stop.boundary import Boundary
from launchers.stop.leave import await_seal, from_rank_0, leave
from launchers.training.saving import background


class StopFlowCallback(DefaultFlowCallback):  # type: ignore[misc]
    """Upstream's flow, and a save and the end of training where the launcher asks for them."""

    def __init__(self, trainer: Any) -> None:
        """Open the launcher's board."""
        super().__init__(trainer)
        self._boundary, self._stops = Boundary(os.environ, from_rank_0), False

    def on_train_begin(self) -> None:
        """Note the first boundary."""
        super().on_train_begin()
        self._boundary.begin(self.state.iteration)

    def on_step_end(self) -> None:
        """Let upstream decide, then look for a request."""
        super().on_step_end()
        state = self.state
        writes = background.current()
        written = 0.0 if writes is None else writes.seconds
        if self._boundary.is_save_due(state.iteration, write_seconds=written):
            state.should_save = True
        self._stops = self._boundary.end_step(
            state.iteration,
            saves=state.should_save,
            is_last=self._is_last,
            evaluates=state.should_eval,
            write_seconds=0.0 if writes is None else writes.expected_seconds,
        )
        if self._stops:
            if state.should_eval:
                owed.note()
            state.should_log, state.should_eval, state.should_save = True, False, True

    def on_eval_begin(self) -> None:
        """Note that an evaluation runs."""
        super().on_eval_begin()
        self._boundary.begin_evaluation(self.state.iteration)

    def on_eval_step(self) -> None:
        """End a part."""
        super().on_eval_step()
        self.end_part()

    def end_part(self) -> None:
        """Save and stop after a part of an evaluation, if the launcher asks for it.

        No rank is in the schedule of a pipeline then, and the trainer has prepared the model for an
        evaluation as it does for a save, so its own save is called from here. The rest of the
        evaluation is left out.
        """
        if self._boundary.end_batch(self.state.iteration):
            self._stops, trainer = True, self.trainer
            owed.note()
            trainer.save_checkpoint()
            trainer.call_event("on_save", output_dir=self.state.last_model_checkpoint)

    def on_eval_end(self) -> None:
        """Note that it has ended; let the trainer save if the launcher asks for a stop."""
        super().on_eval_end()
        state, last = self.state, self._is_last
        if self._boundary.end_evaluation(state.iteration, saves=state.should_save, is_last=last):
            self._stops = state.should_save = True

    def on_save(self, output_dir: str) -> None:
        """Stop if the launcher asks for it: the callback ``seal`` has run, or runs behind it."""
        if self._is_last and not self._stops:
            return  # training ends by itself
        await_seal()
        step = self.state.iteration
        if self._boundary.end_save(step, stops=self._stops):
            self._boundary.await_write()
            background.finish()
            await_seal()
            leave(self._boundary, step, lambda: self.trainer.call_event("on_train_end"))

    @property
    def _is_last(self) -> bool:
        return bool(self.state.iteration >= self.args.train_iters)


def install() -> None:
    """Replace upstream's ``default_flow``."""
    megatron_callbacks_map["default_flow"] = StopFlowCallback
