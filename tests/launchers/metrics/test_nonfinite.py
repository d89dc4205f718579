"""The error of a value that is not finite names the rows that can have caused it."""

import math
from typing import Any

import pytest

from launchers.exits import USER, Exit, FailureClass, LaunchError
from launchers.metrics.nonfinite import SHOWN_ROWS, ZERO_STEPS, Finding, Microbatch, Zeros


def finding(*given: Microbatch, value: float = math.nan) -> Finding:
    return Finding(rank=5, step=31, what="the loss", value=value, microbatches=given)


@pytest.mark.parametrize(
    ("losses", "rows"),
    [((0.7, math.inf), [1, 3]), ((0.5, 0.5), [1, 3, 8]), ((None, None), [1, 3, 8])],
)
def test_the_rows_of_the_loss_that_is_not_finite_are_named_or_all(losses: Any, rows: Any) -> None:
    both = (Microbatch(rows=r, loss=loss) for r, loss in zip(((8, 3), (3, 1)), losses, strict=True))
    assert finding(*both).rows == rows


def test_the_error_is_a_users_and_names_rank_step_and_file() -> None:
    error = finding(Microbatch(rows=(2,)), value=-math.inf).error("/w/not-finite-5.jsonl")
    assert (error.code, error.id) == (Exit.DATA, "value-not-finite")
    assert error.code in USER
    assert error.failure_class == FailureClass.MODEL
    said = "Inf in the loss on rank 5 at step 31, rows 2 of the tokenised training dataset"
    assert error.cause == f"{said} (written to /w/not-finite-5.jsonl)"


def test_many_rows_are_counted_and_those_of_a_stream_are_not_known() -> None:
    many = finding(Microbatch(rows=tuple(range(SHOWN_ROWS + 4)))).error()
    assert ", 15 and 4 more of the tokenised" in many.cause
    assert "rows that are not known" in finding().error("/w/f").cause


def judged(*norms: float, total: int = 100) -> int:
    """Return the steps that a run makes with these norms of gradients."""
    zeros = Zeros()
    for step, norm in enumerate(norms, 1):
        try:
            zeros.judge(norm, total)
        except LaunchError as error:
            assert (error.id, error.code) == ("gradient-zero", Exit.DATA)
            return step
    return len(norms)


@pytest.mark.parametrize(
    ("norms", "total", "steps"),
    [
        ((0.0,) * 9, 100, ZERO_STEPS),
        ((0.0,) * 2, 2, 2),  # a run of two steps
        ((0.0,) * 4 + (1e-9,) + (0.0,) * 9, 100, 14),  # a gradient that is small
        ((0.3,) + (0.0,) * 9, 100, 10),  # rewards that are all equal later
    ],
)
def test_gradients_of_0_from_the_first_step_end_a_run(
    norms: tuple[float, ...], total: int, steps: int
) -> None:
    assert judged(*norms, total=total) == steps
