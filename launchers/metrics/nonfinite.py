"""The errors of a loss or gradient that is NaN or Inf, with the step's rows, and of gradients of 0.

A restart would read the same rows with the same weights, so the run ends as a user error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.exits import Exit, FailureClass, LaunchError

ZERO_STEPS = 5
"""First steps of a start whose gradients must not all be exactly 0."""
SHOWN_ROWS = 16
"""Rows that the message names; the file has all."""


@dataclass(kw_only=True)
class Zeros:
    """The norms of the gradients in the first steps of a start."""

    steps: int = 0
    """Steps so far, all with a norm of exactly 0; -1 after one with another norm."""

    def judge(self, norm: float, total: int) -> None:
        """Count a step.

        An adapter that begins at zero has gradients too, so that a norm of exactly 0 in each of the
        first steps means that the loss does not depend on what is trained.
        ``norm`` is of all gradients before they are clipped, the same on all ranks.

        Raises:
            LaunchError: DATA, all were 0.
        """
        if self.steps < 0 or norm:
            self.steps = -1
            return
        self.steps += 1
        if self.steps == min(ZERO_STEPS, total):
            raise LaunchError(
                Exit.DATA,
                f"the norm of the gradients is exactly 0 in each of the first {self.steps} steps: "
                "nothing is trained",
                "check that rows have answers whose loss counts, that rewards differ, and which "
                "parameters are frozen; if it is intended, set recipe.checkFirstStep: false",
                id="gradient-zero",
                failure_class=FailureClass.MODEL,
            )


@dataclass(frozen=True, kw_only=True)
class Microbatch:
    """A rank's record of a microbatch of the step."""

    rows: tuple[int, ...] = ()
    """Rows of the tokenised training dataset, from 0; none for a stream."""
    loss: float | None = None
    """None on a rank that computes no loss: a pipeline stage before the last."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A number that is not finite, on one rank."""

    rank: int
    step: int
    """The optimizer step in which it was found, from 1; its weights have not changed."""
    what: str
    """E.g. ``the gradients of bucket 3``."""
    value: float
    microbatches: Sequence[Microbatch]

    @property
    def kind(self) -> str:
        """Return ``NaN`` or ``Inf``."""
        return "NaN" if math.isnan(self.value) else "Inf"

    @property
    def guilty(self) -> list[Microbatch]:
        """Return the microbatches whose own loss is not finite; all if each of them is."""
        given = list(self.microbatches)
        found = [each for each in given if each.loss is not None and not math.isfinite(each.loss)]
        return found or given

    @property
    def rows(self) -> list[int]:
        """Return the rows of these microbatches."""
        return sorted({row for each in self.guilty for row in each.rows})

    def error(self, file: str = "") -> LaunchError:
        """Return the error that ends the run.

        ``file``: where the rows were written to; empty if they were not.
        """
        place = f" (written to {file})" if file and self.rows else ""
        return LaunchError(
            Exit.DATA,
            f"{self.kind} in {self.what} on rank {self.rank} at step {self.step}, {self._read()}"
            f"{place}",
            "inspect these rows, lower the learning rate, or try other GPUs: if the same step is "
            "finite there, a GPU is faulty",
            id="value-not-finite",
            failure_class=FailureClass.MODEL,
        )

    def _read(self) -> str:
        if not self.rows:
            return "in rows that are not known: the dataset is a stream"
        shown = ", ".join(map(str, self.rows[:SHOWN_ROWS]))
        more = len(self.rows) - SHOWN_ROWS
        suffix = f" and {more} more" if more > 0 else ""
        return f"rows {shown}{suffix} of the tokenised training dataset"
