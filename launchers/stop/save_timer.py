"""Save by time, at the same step on all ranks.

Clocks of ranks differ, so rank 0 decides: at a look all ranks take from it how many steps to train
until the next one, none to save now. It looks again after half of the steps that seem to remain: in
an interval of n steps about log2(n) times, and in time unless steps become twice as slow.
"""

import time
from collections.abc import Callable, Mapping

from launchers.flags.features import SAVE_VARIABLE
from launchers.plan.footprint import save_interval


def steps_to_look(remaining: float, step_seconds: float) -> int:
    """Return the steps until the next look; 0 to save now.

    >>> [steps_to_look(seconds, 10.0) for seconds in (900.0, 25.0, 5.0, 0.0)]
    [45, 1, 1, 0]
    """
    return max(1, int(remaining / 2 / max(step_seconds, 1e-3))) if remaining > 0 else 0


class SaveTimer:
    """The time since the last save, in one training process."""

    def __init__(self, env: Mapping[str, str], agree: Callable[[int], int]) -> None:
        """Read the limit; ``agree`` returns rank 0's number on all ranks."""
        self._limit, self._agree = float(env.get(SAVE_VARIABLE, "0")), agree
        self.begin(0)

    def begin(self, step: int) -> None:
        """Note that training begins, or continues after a save, with ``step`` completed steps."""
        self._began, self._step, self._look = time.monotonic(), step, step + 1

    def is_due(self, step: int, *, hold: float, write: float = 0.0) -> bool:
        """Return whether to save after ``step`` completed steps.

        Equal on all ranks; ``hold`` and ``write`` are the last save's seconds, 0 before the first.
        """
        if not self._limit or step < self._look:
            return False
        elapsed = time.monotonic() - self._began
        each = elapsed / (step - self._step)
        interval = save_interval(self._limit, hold=hold, write=write, step=each)
        steps = self._agree(steps_to_look(interval - elapsed, each))
        self._look = step + steps
        return steps == 0
