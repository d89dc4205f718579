"""Verdicts of results again: ``python3 -m tests.bench judge FOLDER NAME ...``, without a GPU.

NAME is a result of ``gradients`` or ``learning`` in FOLDER, such as ``learning-4gpu``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.dev import results
from tests.bench.gradients import errors
from tests.bench.gradients import judge as gradients_judge
from tests.bench.learning import judge as learning_judge


def main(words: Sequence[str]) -> int:
    """Judge; return 1 if a result fails, 2 if one is not there."""
    if len(words) < 2:
        print("usage: python3 -m tests.bench judge FOLDER NAME ...")
        return 2
    found = results.read(Path(words[0]))
    if missing := sorted(set(words[1:]) - set(found)):
        print(f"judge: {words[0]} has no result {missing[0]}; it has {', '.join(found)}")
        return 2
    return max(_judge(found[name]) for name in words[1:])


def _judge(record: results.Record) -> int:
    if "compared" in record:
        compared = {name: errors.rows(each) for name, each in record["compared"].items()}
        judged = gradients_judge.judge(record["runs"], compared)
        print(gradients_judge.table(judged))
    else:
        judged = learning_judge.judge(record["runs"])
        print(learning_judge.table(judged))
    return 0 if judged["passed"] else 1
