"""Pods of two real launchers with the real ms-swift on CPU, and what they train on."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.metrics.trainer_log import LOG
from launchers.system.process import descendants
from scripts.demo import sources
from scripts.demo.sources import PLUGIN, Sources
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.pods import Pods, end
from tests.launchers.stages.checkpoints import newest_step
from tests.launchers.trainer_log import read_losses
from tests.launchers.training import demo_run
from tests.launchers.training_environment import launcher_words

SLOW = Path(__file__).with_name("slow_trainer.py")
STEPS = 16
SAVES = 3
"""Steps between two checkpoints."""
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
        own = {
            "DPO_GRACE_SECONDS": "60",
            "OMP_NUM_THREADS": "1",
            "MODELSCOPE_CACHE": str(self.folder / "cache"),
            "PYTHONPATH": str(ROOT),
            "PYTHON_EXEC": str(warm.python()),  # of the ranks
            "CUDA_VISIBLE_DEVICES": "",
            "HOME": str(Path.home()),
            "SLOW_SIGNS": str(self.signs),
        }
        return {**super().env(rank), **own, **slow, **change}

    def start(self, rank: int, command: str = "run", **change: str) -> subprocess.Popen[str]:
        log = (self.folder / f"pod-{rank}.log").open("a")
        words, env = launcher_words(command), self.env(rank, **change)
        return subprocess.Popen(
            words, cwd=self.folder, env=env, stdout=log, stderr=subprocess.STDOUT, text=True
        )

    @property
    def signs(self) -> Path:
        return self.folder / "signs"

    def losses(self) -> list[tuple[int, float]]:
        """Return step and loss of each row of the trainer's log, in the order of the file."""
        rows = read_losses(self.run / "checkpoints" / LOG)
        return [(step.number, step.row["loss"]) for step in rows]

    def saved(self) -> int:
        return newest_step(self.run / "checkpoints")

    def complete(self, **change: str) -> None:
        """Run both pods to their ends, which must be good ones."""
        assert stopped(self, [self.start(n, **change) for n in (0, 1)]) == [0, 0], self.said()

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
    return demo_run.sources_of(root, rows=4 * STEPS)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return short_sources(tmp_path_factory.mktemp("sources"))


def stopped(pods: Trained, started: list[subprocess.Popen[str]]) -> list[int]:
    return [end(pod, LONG)[0] for pod in started]


def worker(launcher: subprocess.Popen[str]) -> int:
    """Return the training process of a launcher: the one whose stdout is a file of the run.

    A standby that was used has another command line than a training process that was started.
    """
    for pid in descendants(launcher.pid):
        out = Path(f"/proc/{pid}/fd/1")
        if out.exists() and "/attempts/" in str(out.readlink()):
            return pid
    raise AssertionError("no training process")


def written(pods: Trained) -> list[Row]:
    return list(reader.read(pods.run / "metrics.jsonl", Row))


def losses(pods: Trained) -> list[tuple[int, float]]:
    return [(row.step, row.values["loss"] or 0.0) for row in written(pods)]
