"""The product's outcome of each reported case is the right one."""

from pathlib import Path

import pytest

from tests.field.judges import Outcome
from tests.field.outcomes import all_cases


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.id} {case.what}")
def test_the_outcome_is_right(case: Outcome, tmp_path: Path) -> None:
    assert case.judge(tmp_path) == case.right
