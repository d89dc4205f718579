"""Real launchers as the pods of a run, with a fake torch and a fake ms-swift."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launchers.preflight.gang_probes import free_port
from tests.launchers import model_folder, warm
from tests.launchers.waiting import eventually

ROOT = Path(__file__).parents[2]
FAKES = Path(__file__).parent / "fakes"
PYTHONPATH = f"{ROOT}:{FAKES}"
PAIR = (
    '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], '
    '"rejected_response": "b"}\n'
)


@dataclass
class Pods:
    """Pods of a run on this machine; ``folder`` has the workspace, the sources and the recipe."""

    folder: Path
    nodes: int = 2
    train: str = ""
    """Behaviour of the fake torchrun, see ``fakes/torch/distributed/run.py``."""

    def __post_init__(self) -> None:
        self.port, self.master_port = free_port(), free_port()
        model_folder.write(self.folder / "sources" / "model")
        (self.folder / "sources" / "pairs.jsonl").write_text(PAIR)
        self.write_recipe()

    def write_recipe(self, **change: Any) -> None:
        sources = self.folder / "sources"
        document = {
            "backend": "transformers",
            "task": "rlhf",
            "model": f"file://{sources / 'model'}",
            "dataset": [f"file://{sources / 'pairs.jsonl'}"],
            "args": {"learning_rate": "1e-3", "tuner_type": "full"},
        }
        (self.folder / "recipe.yaml").write_text(yaml.safe_dump(document | change))

    @property
    def run(self) -> Path:
        return self.folder / "workspace" / "runs" / "r"

    def log(self, rank: int) -> Path:
        return self.folder / f"termination-{rank}"

    def env(self, rank: int, **change: str) -> dict[str, str]:
        given = {
            "WORKSPACE": self.folder / "workspace",
            "RECIPE": self.folder / "recipe.yaml",
            **dict.fromkeys(("NODES", "COMPLETIONS"), self.nodes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": self.master_port,
            "GANG_PORT": self.port,
            "GANG_DEADLINE": 20,
            "RESTARTS_IN_PLACE": 0,
            "RUN": "r",
            "POD_NAME": f"r-node-0-{rank}",
            "JOB_INDEX": 0,
            "TERMINATION_LOG": self.log(rank),
        }
        env = {f"DPO_{name}": str(value) for name, value in given.items()}
        env |= {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "FAKE_TRAIN": self.train}
        return env | {"JOB_COMPLETION_INDEX": str(rank)} | change

    def start(self, rank: int, command: str = "run", **change: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [warm.launcher(PYTHONPATH), "-m", "launchers", command],
            cwd=self.folder,
            env=self.env(rank, **change),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def all(self, **change: str) -> list[tuple[int, str]]:
        """Run all pods until they end; return exit codes and outputs by rank."""
        started = [self.start(rank, **change) for rank in range(self.nodes)]
        return [end(pod) for pod in started]

    def ended(self, *codes: int, **change: str) -> list[str]:
        """Run all pods to their ends, with these exit codes (by default 0); return the outputs."""
        ends = self.all(**change)
        assert [code for code, _ in ends] == list(codes or [0] * self.nodes), ends
        return [output for _, output in ends]

    def alone(self, command: str, code: int = 0, /, **change: str) -> str:
        """Run a command as rank 0 to its end, with this exit code; return the output."""
        found, output = end(self.start(0, command, **change))
        assert found == code, output
        return output

    def files(self, name: str, number: int = 2) -> list[Path]:
        """Wait until the attempts have so many files of a name; return them, sorted."""
        attempts = self.run / "attempts"  # folders of the preflight next to it come and go
        assert eventually(lambda: len([*attempts.rglob(name)]) >= number, 60), f"no {name}"
        return sorted(attempts.rglob(name))

    def message(self, rank: int) -> dict[str, Any]:
        return read(self.log(rank))

    def record(self, attempt: int, rank: int = 0) -> dict[str, Any]:
        return read(self.run / "attempts" / str(attempt) / f"termination-{rank}.json")

    def progress(self) -> dict[str, Any]:
        return read(self.run / "progress.json")

    def argv(self, rank: int, attempt: int = 1) -> list[str]:
        folder = self.run / "attempts" / str(attempt) / f"node-{rank}"
        words: list[str] = json.loads(next(folder.rglob("argv.json")).read_text())
        return words

    def flag(self, name: str, rank: int = 0, attempt: int = 1) -> str:
        """Return the value of a flag of torchrun or of the training."""
        words = self.argv(rank, attempt)
        return words[words.index(f"--{name}") + 1]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def end(pod: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    """Wait until a pod ends; kill it and fail the test after ``seconds``."""
    try:
        output, _ = pod.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        pod.send_signal(signal.SIGKILL)
        output, _ = pod.communicate()
        raise AssertionError(f"the pod did not end:\n{output}") from None
    return pod.returncode, output
