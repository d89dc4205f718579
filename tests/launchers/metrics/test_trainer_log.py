from pathlib import Path

import pytest

from launchers.metrics.trainer_log import LOG, last_step

ROWS = '{"loss": 0.69, "iteration": "1/20"}\n{"loss": 0.68, "iteration": "2/20"}\n'


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (ROWS, 2),
        (ROWS + '{"last_model_checkpoint": "x"}\n', 2),
        (ROWS + '{"loss": 0.67, "iterat', 2),
        ('{"loss": 0.5, "global_step/max_steps": "7/100"}\n', 7),
        ("", None),
        ("no json\n[1]\n3\n", None),
    ],
)
def test_the_last_whole_row_with_a_step_counts(tmp_path: Path, text: str, step: int | None) -> None:
    (tmp_path / LOG).write_text(text)
    assert last_step(tmp_path) == step


def test_before_training_there_is_no_step(tmp_path: Path) -> None:
    assert last_step(tmp_path / "missing") is None
