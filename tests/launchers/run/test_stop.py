"""SIGTERM during training: two real launchers with the real ms-swift on CPU save and stop."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit
from launchers.metrics import reader
from launchers.metrics.trainer_log import LOG, read_losses
from launchers.storage import checkpoint
from launchers.system.process import descendants
from scripts.demo import sources
from scripts.demo.sources import PLUGIN, Sources
from scripts.helm import ROOT
from tests.launchers.pods import Pods, end
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = [needs_training, pytest.mark.timeout(600)]
SLOW = Path(__file__).with_name("slow_trainer.py")
STEPS = 16
LONG = 200.0
"""Seconds of a whole run on two cores that do other things, too."""


@dataclass
class Trained(Pods):
    """Pods that run the training environment's Python and the real torchrun."""

    given: Sources = field(default_factory=lambda: Sources(root=Path()))
    args: dict[str, Any] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the demo's recipe, on the sources that all tests share."""
        super().__post_init__()
        document = yaml.safe_load(sources.VALUES.read_text(encoding="utf-8"))["recipe"]
        changes = {"external_plugins": [str(PLUGIN), str(SLOW)], "max_steps": STEPS}
        changes |= {"save_steps": 1000, "logging_steps": 1, "report_to": "none"}
        # two ranks that compute with fewer rows are as good, and faster
        changes |= {"per_device_train_batch_size": 2, **self.args}
        document |= {"model": f"file://{self.given.model}"}
        document |= {"dataset": [f"file://{self.given.pairs}"]}
        self.write_recipe(**document | {"args": document["args"] | changes})

    def env(self, rank: int, **change: str) -> dict[str, str]:
        self.signs.mkdir(exist_ok=True)
        slow = {f"SLOW_{name}": str(seconds) for name, seconds in self.slow.items()}
        cache = {"MODELSCOPE_CACHE": str(self.folder / "cache"), "HF_HOME": str(self.folder)}
        return {
            **super().env(rank, DPO_GRACE_SECONDS="60", OMP_NUM_THREADS="1", **cache),
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "SLOW_SIGNS": str(self.signs),
            **slow,
            **change,
        }

    def start(self, rank: int, command: str = "run", **change: str) -> subprocess.Popen[str]:
        log = (self.folder / f"pod-{rank}.log").open("a")
        return subprocess.Popen(
            [str(PYTHON), "-m", "launchers", command],
            cwd=self.folder,
            env=self.env(rank, **change),
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def signs(self) -> Path:
        return self.folder / "signs"

    def losses(self) -> list[tuple[int, float]]:
        """Return step and loss of each row of the trainer's log, in the order of the file."""
        rows = read_losses(self.run / "checkpoints" / LOG)
        return [(step.number, step.row["loss"]) for step in rows]

    def wait_for_step(self, step: int) -> None:
        self.wait_for(lambda: any(done >= step for done, _ in self.losses()), f"step {step}")

    def wait_for_sign(self, sign: str) -> None:
        paths = [self.signs / f"{sign}-{rank}" for rank in range(self.nodes)]
        self.wait_for(lambda: all(path.exists() for path in paths), sign)

    def wait_for(self, holds: Any, what: str, seconds: float = LONG) -> None:
        stop = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < stop, f"no {what}:\n{self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.logs())

    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("pod-*.log"))


def short_sources(root: Path) -> Sources:
    """Make a tiny model and pairs for one epoch of ``STEPS`` steps."""
    made = Sources(root=root)
    sources.make_pairs(made)
    sources.make_model(made, PYTHON)
    lines = made.pairs.read_text().splitlines(keepends=True)
    made.pairs.write_text("".join(lines[: 4 * STEPS]))
    return made


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return short_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def undisturbed(
    given: Sources, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, float]]:
    pods = Trained(tmp_path_factory.mktemp("undisturbed"), given=given)
    assert stopped(pods, [pods.start(rank) for rank in (0, 1)]) == [0, 0], pods.said()
    assert [step for step, _ in pods.losses()] == list(range(1, STEPS + 1))
    return pods.losses()


def stopped(pods: Trained, started: list[subprocess.Popen[str]]) -> list[int]:
    return [end(pod, LONG)[0] for pod in started]


@pytest.mark.parametrize("who", ["rank 0", "rank 1", "every process"])
def test_a_gang_saves_its_step_on_sigterm(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]], who: str
) -> None:
    """``every process``: of both hosts, as Slurm preempts a job; data loader workers are killed
    by a SIGTERM that is not blocked, and the trainer with them."""
    pods = Trained(tmp_path, given=given, slow={"STEP": 0.3}, args={"dataloader_num_workers": 2})
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(4)
    before = len(pods.losses())
    signalled = [started[who == "rank 1"].pid]
    if who == "every process":
        signalled = [pid for each in started for pid in (each.pid, *descendants(each.pid))]
        assert len(signalled) >= 2 * 5  # launcher, torchrun, worker, two of its data loader
    for pid in signalled:
        os.kill(pid, signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    saved = checkpoint.newest(pods.run / "checkpoints")
    assert saved is not None and before <= saved.step <= before + 2
    assert pods.losses() == undisturbed[: saved.step]
    assert [pods.message(rank)["id"] for rank in (0, 1)] == ["preempted"] * 2
    assert pods.progress()["code"] == Exit.PREEMPTED

    again = [pods.start(rank) for rank in (0, 1)]
    assert stopped(pods, again) == [0, 0], pods.said()
    assert pods.losses() == undisturbed  # no step is lost, none is trained twice


def test_a_spent_budget_ends_a_gang_with_a_sealed_checkpoint_and_its_export(
    tmp_path: Path, given: Sources, undisturbed: list[tuple[int, float]]
) -> None:
    pods = Trained(tmp_path, given=given, slow={"STEP": 0.3})
    began = time.monotonic()
    started = [pods.start(rank) for rank in (0, 1)]
    pods.wait_for_step(1)
    seconds = time.monotonic() - began
    started[0].send_signal(signal.SIGTERM)
    assert stopped(pods, started) == [Exit.PREEMPTED, Exit.PREEMPTED], pods.said()
    first = checkpoint.newest(pods.run / "checkpoints")
    pods.slow = {"STEP": seconds / 4}  # the budget ends after the start, and before the last step
    by = datetime.fromtimestamp(time.time() + 2 * seconds, UTC).isoformat()
    again = [pods.start(rank, DPO_BUDGET_BY=by) for rank in (0, 1)]
    assert stopped(pods, again) == [0, 0], pods.said()
    progress = pods.progress()
    assert (progress["state"], progress["why"]) == ("succeeded", "budget.by")
    saved = checkpoint.newest(pods.run / "checkpoints")
    assert first and saved and first.step < saved.step < STEPS
    assert pods.losses() == undisturbed[: saved.step]
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
    saved = checkpoint.newest(pods.run / "checkpoints")
    assert saved is not None and saved.step == 3
    assert [step for step, _ in pods.losses()] == [1, 2, 3]


def test_a_save_that_outlasts_the_grace_period_is_given_up(tmp_path: Path, given: Sources) -> None:
    slow = {"SAVE": 300.0, "STEP": 0.3}
    pods = Trained(tmp_path, nodes=1, given=given, slow=slow)
    pod = pods.start(0, DPO_GRACE_SECONDS="20")
    pods.wait_for_step(2)
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert stopped(pods, [pod]) == [Exit.TERMINATED], pods.said()
    assert 15 <= time.monotonic() - begin < 20
    assert list((pods.run / "checkpoints").glob("checkpoint-*"))  # half a checkpoint
    assert checkpoint.newest(pods.run / "checkpoints") is None


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


HELD_OUT = {"eval_strategy": "steps", "split_dataset_ratio": 0.25, "max_steps": 6}
HELD_OUT |= {"per_device_eval_batch_size": 2}


def evaluated(pods: Trained) -> list[tuple[int, float | None]]:
    found = reader.read(pods.run / "metrics.jsonl", Evaluation)
    return [(each.step, each.values["loss"]) for each in found]


def test_an_evaluation_is_left_and_its_step_saved(tmp_path: Path, given: Sources) -> None:
    """Also the one after the last step; the losses are those of a run that was not stopped."""
    args = HELD_OUT | {"eval_steps": 3}
    whole = Trained(tmp_path / "whole", given=given, args=args)
    assert stopped(whole, [whole.start(rank) for rank in (0, 1)]) == [0, 0], whole.said()
    pods = Trained(tmp_path / "stopped", given=given, args=args, slow={"EVALUATION": 3})
    for step in (3, 6):
        started = [pods.start(rank) for rank in (0, 1)]
        pods.wait_for_sign(f"evaluation-{step}")
        begin = time.monotonic()
        started[step // 4].send_signal(signal.SIGTERM)
        assert stopped(pods, started) == [Exit.PREEMPTED] * 2, pods.said()
        saved = checkpoint.newest(pods.run / "checkpoints")
        assert saved is not None and saved.step == step
        assert any("training stopped" in path.read_text() for path in pods.logs())
        print(f"SIGTERM to the end, evaluation after step {step}: {time.monotonic() - begin:.1f} s")
    assert pods.losses() == whole.losses()[:6]
    again = [pods.start(rank) for rank in (0, 1)]
    assert stopped(pods, again) == [0, 0], pods.said()
    assert pods.losses() == whole.losses()
    assert [step for step, _ in evaluated(whole)] == [0, 3, 6]
    assert evaluated(pods) == evaluated(whole)  # each of the two by the attempt after
