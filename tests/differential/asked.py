"""Asks the oracle, a process of the training environment that stays up for all cases."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.launchers.training_environment import ORACLE, PYTHON


@dataclass(frozen=True, kw_only=True)
class Oracle:
    questions: IO[str]
    answers: IO[str]
    versions: Mapping[str, str]

    def refusal(self, *, world: int, config: Mapping[str, Any], argv: Sequence[str]) -> str:
        """Return why ms-swift or megatron-core refuse; empty if they do not."""
        question = {"world": world, "config": config, "argv": list(argv)}
        self.questions.write(json.dumps(question) + "\n")
        self.questions.flush()
        line = self.answers.readline()
        if not line:
            raise AssertionError(f"the oracle died of {json.dumps(question)}")
        return str(json.loads(line)["refused"])


@contextmanager
def start(folder: Path) -> Iterator[Oracle]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ORACLE),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "MODELSCOPE_CACHE": str(folder / "cache"),
    }
    command = [str(PYTHON), str(Path(__file__).with_name("oracle.py"))]
    log = folder / "oracle.log"
    given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    given |= {"env": environment, "cwd": folder}
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors, **given) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert ready, log.read_text()[-2000:]
            versions = json.loads(ready)["ready"]
            yield Oracle(questions=process.stdin, answers=process.stdout, versions=versions)
        finally:
            process.stdin.close()
            process.wait(timeout=30)
