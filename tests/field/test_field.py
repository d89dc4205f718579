"""The launcher's verdict on each field case is right, and ms-swift's own rows agree with it."""

from pathlib import Path

from tests.field.cases import CASES
from tests.field.run import is_right, verdicts
from tests.launchers.training_environment import PYTHON, STACK, needs_training

pytestmark = needs_training


def test_every_verdict_is_right(tmp_path: Path) -> None:
    found = verdicts(PYTHON, tmp_path)
    wrong = [
        (case.id, case.what, case.expected(STACK.swift), *seen)
        for case, seen in zip(CASES, found, strict=True)
        if not is_right(case.expected(STACK.swift), seen[0]) or not seen[1]
    ]
    assert not wrong
