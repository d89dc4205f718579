"""The local runner as a process of its own, on a fake launcher."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.scripts.local.rendered import manifest, write

ROOT = Path(__file__).resolve().parents[3]


def start(
    folder: Path, script: str, jobs: Sequence[dict[str, Any]] = (), **more: int
) -> subprocess.Popen[str]:
    return start_manifest(folder, manifest(script, jobs, **more))


def start_manifest(folder: Path, text: str) -> subprocess.Popen[str]:
    path = write(folder, text)
    command = [sys.executable, "-m", "scripts.cli", "local", "--manifest", str(path)]
    command += ["--workspace", str(folder / "ws"), "--python", sys.executable]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run(
    folder: Path, script: str, jobs: Sequence[dict[str, Any]] = (), **more: int
) -> tuple[int, str]:
    process = start(folder, script, jobs, **more)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def pod_folder(folder: Path, pod: str, restart: int = 0) -> Path:
    return folder / "ws" / "pods" / "run" / str(restart) / pod


def wait_for_lines(process: subprocess.Popen[str], text: str, count: int) -> None:
    assert process.stdout
    while count:
        line = process.stdout.readline()
        assert line, "the runner has ended"
        count -= text in line
