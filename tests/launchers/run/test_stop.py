"""SIGTERM during training: two real launchers with the real ms-swift on CPU save and stop."""

import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit
from launchers.metrics import reader
from launchers.storage import checkpoint
from launchers.system.process import descendants
from scripts.demo.sources import Sources
from tests.launchers.run.trained import STEPS, Trained, stopped
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = needs_training


HELD_OUT = {"eval_strategy": "steps", "split_dataset_ratio": 0.25, "eval_steps": STEPS // 2}
HELD_OUT |= {"per_device_eval_batch_size": 2, "dataloader_num_workers": 2}


@pytest.fixture(scope="module")
def whole(given: Sources, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run that is not stopped."""
    pods = Trained(tmp_path_factory.mktemp("whole"), given=given, args=HELD_OUT)
    pods.complete()
    assert [step for step, _ in pods.losses()] == list(range(1, STEPS + 1))
    assert [each.step for each in evaluations(pods)] == [0, STEPS // 2, STEPS]
    return pods


def evaluations(pods: Trained) -> list[Evaluation]:
    return list(reader.read(pods.run / "metrics.jsonl", Evaluation))


def test_a_gang_saves_its_step_on_sigterm_and_goes_on_where_it_stopped(
    tmp_path: Path, given: Sources, whole: Trained
) -> None:
    """In steps and in evaluations, also the one after the last step, which are left."""
    pods = Trained(tmp_path, given=given, args=HELD_OUT)
    for stop in (_in_a_step, _in_an_evaluation, _of_every_process, _in_an_evaluation):
        saved = stop(pods)
        assert pods.saved() == saved
        assert pods.losses() == whole.losses()[:saved]
        assert [pods.message(rank)["id"] for rank in (0, 1)] == ["preempted"] * 2
        assert pods.progress()["code"] == Exit.PREEMPTED
    pods.complete()
    assert pods.losses() == whole.losses()  # no step is lost, none is trained twice
    made = [[(each.step, each.values["loss"]) for each in evaluations(of)] for of in (pods, whole)]
    assert made[0] == made[1]
    assert [each.attempt for each in evaluations(pods)] == [1, 3, 5]  # each after one that left it


def _in_a_step(pods: Trained) -> int:
    """Stop rank 0; return the step that is to be saved."""
    pods.slow = {"STEP": 0.3}
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(3)
    return _after_a_step(pods, started, [started[0].pid])


def _of_every_process(pods: Trained) -> int:
    """Stop all processes of both hosts, as Slurm preempts a job.

    Data loader workers are killed by a SIGTERM that is not blocked, and the trainer with them.
    """
    pods.slow = {"STEP": 0.3}
    started = [pods.start(rank, PYTHON_EXEC=str(PYTHON)) for rank in (0, 1)]
    pods.wait_for_step(STEPS // 2 + 3)
    pids = [pid for each in started for pid in (each.pid, *descendants(each.pid))]
    assert len(pids) >= 2 * 5  # launcher, torchrun, worker, two of its data loader
    return _after_a_step(pods, started, pids)


def _after_a_step(pods: Trained, started: list[subprocess.Popen[str]], pids: list[int]) -> int:
    before = len(pods.losses())
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED] * 2, pods.said()
    assert before <= pods.saved() <= before + 2
    return pods.saved()


def _in_an_evaluation(pods: Trained) -> int:
    """Stop rank 0 in the first evaluation, rank 1 in the last one."""
    step = STEPS if pods.saved() > STEPS // 2 else STEPS // 2
    pods.slow = {"EVALUATION": 3}
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_sign(f"evaluation-{step}")
    begin = time.monotonic()
    started[step // STEPS].send_signal(signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED] * 2, pods.said()
    said = [path.read_text() for path in pods.run.rglob("stdout.log")]  # torchrun may not copy all
    assert any("training stopped" in each for each in said)
    print(f"SIGTERM to the end, evaluation after step {step}: {time.monotonic() - begin:.1f} s")
    return step


def test_a_spent_budget_ends_a_gang_with_a_sealed_checkpoint_and_its_export(
    tmp_path: Path, given: Sources, whole: Trained
) -> None:
    pods = Trained(tmp_path, given=given, args=HELD_OUT, slow={"STEP": 0.3})
    began = time.monotonic()
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(1)
    seconds = time.monotonic() - began
    started[0].send_signal(signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    first = pods.saved()
    pods.slow = {"STEP": seconds / 4}  # the budget ends after the start, and before the last step
    by = datetime.fromtimestamp(time.time() + 2 * seconds, UTC).isoformat()
    pods.complete(DPO_BUDGET_BY=by)
    progress = pods.progress()
    assert (progress["state"], progress["why"]) == ("succeeded", "budget.by")
    saved = checkpoint.newest(pods.run / "checkpoints")
    assert first and saved and first < saved.step < STEPS
    assert pods.losses() == whole.losses()[: saved.step]
    weights = pods.run / "export" / "model.safetensors"
    assert weights.read_bytes() == (saved.path / "model.safetensors").read_bytes()


def test_a_save_in_progress_is_finished_and_no_step_follows(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, args={"save_steps": 3}, slow={"SAVE": 4})
    pod = pods.start(0)
    pods.wait_for_sign("save-3")
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.PREEMPTED], pods.said()
    assert time.monotonic() - begin > 2
    assert pods.saved() == 3
    assert [step for step, _ in pods.losses()] == [1, 2, 3]


def test_a_save_that_outlasts_the_grace_period_is_given_up(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, slow={"SAVE": 300.0, "STEP": 0.3})
    pod = pods.start(0, DPO_GRACE_SECONDS="20")
    pods.wait_for_step(2)
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.TERMINATED], pods.said()
    assert 15 <= time.monotonic() - begin < 20
    assert list((pods.run / "checkpoints").glob("checkpoint-*"))  # half a checkpoint
    assert pods.saved() == 0


def test_a_second_signal_ends_a_save_at_once(tmp_path: Path, given: Sources) -> None:
    pods = Trained(tmp_path, nodes=1, given=given, slow={"SAVE": 300, "STEP": 0.3})
    pod = pods.start(0)
    pods.wait_for_step(2)
    pod.send_signal(signal.SIGTERM)
    pods.wait_for(lambda: list(pods.signs.glob("save-*")), "save")
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.TERMINATED], pods.said()
    assert time.monotonic() - begin < 5
