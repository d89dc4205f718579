"""Cells of the step board that the training processes write."""

import time
from pathlib import Path

from launchers.system.step_board import Phase, StepBoard


def test_a_write_in_the_background_is_no_heartbeat(tmp_path: Path) -> None:
    board = StepBoard.make(tmp_path / "board", 2)
    board.write(1, phase=Phase.STEP, boundary=8)
    before = board.read()
    time.sleep(0.01)
    board.mark_write(1, is_open=True)
    first, second = board.read()
    assert first == before[0] and second.beat == before[1].beat
    assert before[1].write_beat == 0 < second.write_beat <= time.monotonic()
    board.mark_write(1, is_open=False)
    assert board.read() == before
