"""Two ranks with ms-swift's own Megatron flow stop together; the test takes the launcher's part."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.preflight.gang_probes import free_port
from launchers.progress.trained import Trained, read
from launchers.stop.agreement import Answer, decide
from launchers.system.step_board import NOWHERE, VARIABLE, Phase, StepBoard, step_of
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
PARTS = 4
"""Parts of an evaluation."""


class Ranks:
    """Two running ranks and their board."""

    def __init__(self, folder: Path, case: str) -> None:
        self.folder, self.board = folder, StepBoard.make(folder / "board", 2)
        env = {**os.environ, VARIABLE: str(self.board.path), "FOLDER": str(folder)}
        env |= {"PARTS": str(PARTS), "DPO_ATTEMPT_FOLDER": str(folder)}
        python = str(warm.python())
        words = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        words += ["--master-port", str(free_port())]
        words += ["-m", "tests.launchers.stop.megatron_run", case]
        env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHON_EXEC": python}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, cwd=ROOT, env=env, stderr=pipe, text=True)

    def events(self, rank: int) -> list[tuple[str, int]]:
        path = self.folder / f"rank-{rank}"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()]

    def steps(self, event: str) -> list[list[int]]:
        return [[step for name, step in self.events(rank) if name == event] for rank in (0, 1)]

    def wait_for(self, holds: Callable[[], bool]) -> None:
        stop = time.monotonic() + 90
        while not holds():
            assert self.process.poll() is None and time.monotonic() < stop
            time.sleep(0.01)

    def noted(self, event: str) -> bool:
        paths = [self.folder / f"rank-{rank}" for rank in (0, 1)]
        return all(p.exists() and f'"{event}"' in p.read_text() for p in paths)

    def stop(self) -> int:
        self.board.request()
        boundary, _ = decide({0: Answer.of_processes(self.board.read())}, 100)
        self.board.stop_at = boundary
        return boundary

    def end(self) -> None:
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors[-2000:]

    def phases(self) -> set[Phase]:
        return {reading.phase for reading in self.board.read()}


def stopped(folder: Path, case: str, event: str) -> tuple[Ranks, int]:
    """Stop two ranks once both have noted an event; return them, ended, and their boundary."""
    ranks = Ranks(folder, case)
    ranks.wait_for(lambda: ranks.noted(event))
    boundary = ranks.stop()
    ranks.end()
    return ranks, boundary


def test_both_save_the_step_in_which_they_are(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "step")
    ranks.wait_for(lambda: all(step_of(each.boundary) > 10 for each in ranks.board.read()))
    step = step_of(ranks.stop())
    ranks.end()
    assert ranks.steps("saved") == [[step], [step]]
    assert ranks.steps("logged") == [[1, step], [1, step]]  # nothing accumulated is dropped
    assert ranks.steps("closed") == [[step], [step]] and ranks.steps("finished") == [[], []]
    assert ranks.phases() == {Phase.STOPPED} and read(tmp_path) is None


@pytest.mark.parametrize("case", ["step", "evaluation"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_save_that_ends_the_run_has_what_is_exported_and_one_that_stops_it_has_not(
    tmp_path: Path, case: str, ends: bool
) -> None:
    ranks = Ranks(tmp_path, case)
    ranks.wait_for(lambda: ranks.noted("part" if case == "evaluation" else "logged"))
    ranks.board.ends = ends
    step = step_of(ranks.stop())
    ranks.end()
    assert ranks.steps("saved") == [[step], [step]]
    wanted = [[step], [step]] if ends else [[], []]
    assert ranks.steps("weights") == ranks.steps("merged") == wanted


def test_a_save_in_progress_is_the_last(tmp_path: Path) -> None:
    ranks, _ = stopped(tmp_path, "save", "saving")
    assert ranks.steps("saved") == [[3], [3]]
    assert ranks.phases() == {Phase.STOPPED}


def test_all_save_the_step_that_rank_0_chooses_by_time(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, "time")
    ranks.wait_for(lambda: ranks.noted("saved") and len(ranks.steps("saved")[0]) > 2)
    ranks.stop()
    ranks.end()
    first, second = ranks.steps("saved")
    assert first == second == sorted(set(first))
    assert first[0] > 10  # 0.01 s a step: rank 1 alone would have saved before
    assert ranks.phases() == {Phase.STOPPED}


@pytest.mark.parametrize("case", ["evaluation", "last evaluation"])
def test_an_evaluation_is_left_after_its_part_and_the_step_is_saved(
    tmp_path: Path, case: str
) -> None:
    ranks, boundary = stopped(tmp_path, case, "part")
    assert step_of(boundary) == 3 and ranks.steps("saved") == [[3], [3]]
    parts = ranks.steps("part")
    assert parts[0] == parts[1] and len(parts[0]) < PARTS
    assert ranks.steps("evaluated") == [[], []] and ranks.steps("closed") == [[3], [3]]
    assert ranks.steps("left") == [[3], [3]]  # the next attempt evaluates first
    assert ranks.phases() == {Phase.STOPPED}


def test_a_stop_after_the_last_part_saves_once_with_the_evaluation(tmp_path: Path) -> None:
    ranks, _ = stopped(tmp_path, "evaluation", "evaluated")
    assert ranks.steps("evaluated") == [[3], [3]] and ranks.steps("saved") == [[3], [3]]
    assert ranks.steps("left") == [[], []]
    assert ranks.phases() == {Phase.STOPPED}


def test_an_evaluation_before_the_first_step_declines(tmp_path: Path) -> None:
    ranks, boundary = stopped(tmp_path, "first evaluation", "part")
    assert boundary == NOWHERE
    assert ranks.steps("saved") == [[3], [3]] and ranks.steps("finished") == [[3], [3]]


def test_a_run_in_its_last_save_finishes(tmp_path: Path) -> None:
    ranks, boundary = stopped(tmp_path, "last", "saving")
    assert boundary != NOWHERE
    assert ranks.steps("finished") == [[4], [4]]
    assert read(tmp_path) == Trained(step=4, planned=4, reason="finished")
    assert Phase.STOPPED not in ranks.phases()
