"""A Python that has imported ms-swift, or the launcher: a server for each session of tests.

It forks a process for each case.
"""

import ctypes
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from scripts.helm import ROOT
from tests.launchers.training_environment import STACK, Stack

SESSION = "DPO_TESTS_SESSION"
"""Variable: the session's process and its folder of sockets, for all workers."""
HUB = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Variables of the server, which a case need not have: tests have no network, and one with a hub of
its own names it (``HF_ENDPOINT``)."""
SECONDS = 500
"""A server listens by then, also on a busy machine; less than a test may take."""
READ = (
    "HF_",
    "HUGGING",
    "TRANSFORMERS_",
    "USE_",
    "SWIFT_",
    "TOKENIZERS_",
    "LOG_LEVEL",
    "HOME",
    "PYTORCH",
    "TORCH_LOGS",
    "TORCH_HOME",
    "TORCHINDUCTOR",
    "CUDA_",
    "XDG_",
    "LD_",
    "PYTHONHASH",
    "PYTHONWARN",
)
"""Beginnings of variables that are read when ms-swift is imported: they must be the server's."""


def begin(config: pytest.Config) -> None:
    """Name the session, in the process that starts the workers."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="warm-")
        config.add_cleanup(folder.cleanup)
        os.environ[SESSION] = f"{os.getpid()}:{folder.name}"


def python(*, oracle: bool = False, stack: Stack = STACK) -> Path:
    """Return a program that runs what it is given as the training Python would, but sooner.

    It is the same as ``PYTHON`` for what imports ms-swift, prints and ends: ms-swift patches
    transformers when it is imported. Its process is a child of the server. It is ``PYTHON`` outside
    of pytest.

    ``oracle``: PYTHONPATH is ``ROOT`` and the stack's oracle, not ``ROOT`` or nothing.
    """
    if SESSION not in os.environ:
        return stack.python
    return _started(
        _Warmed(
            name=f"{stack.swift}{'-oracle' if oracle else ''}",
            python=stack.python,
            imports=("swift.pipelines", "swift.trainers", "torch"),
            paths=(f"{ROOT}:{stack.oracle}",) if oracle else (str(ROOT), ""),
            env=(("CUDA_VISIBLE_DEVICES", ""), *HUB.items()),
            read=READ,
            free=tuple(HUB),
        )
    )


def printed(*words: str | Path, program: str | Path | None = None, **env: str) -> str:
    """Return what the training Python prints, on CPU and with the launcher on its path.

    ``program``: by default ``python()``; ``PYTHON`` if ms-swift must not have been imported.
    """
    inside = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **env}
    command = [program or python(), *words]
    done = subprocess.run(command, cwd=ROOT, env=inside, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def launcher(path: str) -> Path:
    """Return a program that runs ``-m launchers`` as the tests' Python would, but sooner.

    Its process is a child of the server: it is no descendant of the program. With another
    ``PYTHONPATH`` the program is the tests' Python.
    """
    this = Path(sys.executable)
    if SESSION not in os.environ:
        return this
    imports = ("launchers.command",)
    return _started(_Warmed(name="launcher", python=this, imports=imports, paths=(path,)))


@dataclass(frozen=True, kw_only=True)
class _Warmed:
    """A server and the processes that it may fork; the others are started."""

    name: str
    python: Path
    imports: tuple[str, ...]
    paths: tuple[str, ...]
    """Each ``PYTHONPATH`` of a process; the first one is the server's."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the server only."""
    read: tuple[str, ...] = ()
    """Beginnings of variables that must be the server's, but for ``free``."""
    free: tuple[str, ...] = ()


@cache
def _started(warmed: _Warmed) -> Path:
    session, _, folder = os.environ[SESSION].partition(":")
    name = f"{folder}/{warmed.name}"
    program = Path(f"{name}.py")
    with Path(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            env = {**os.environ, "PYTHONPATH": warmed.paths[0], **dict(warmed.env)}
            _serve(name, session, warmed, env)
            read = {k: v for k, v in env.items() if k.startswith(warmed.read)}
            constants = {
                "socket": f"{name}.socket",
                "python": str(warmed.python),
                "imported": {k: v for k, v in read.items() if k not in warmed.free},
                "read": warmed.read,
                "hub": warmed.free,
                "paths": warmed.paths,
            }
            Path(f"{program}.json").write_text(json.dumps(constants), encoding="utf-8")
            text = Path(__file__).with_name("client.py").read_text(encoding="utf-8")
            program.write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
            program.chmod(0o755)
    return program


def _serve(name: str, session: str, warmed: _Warmed, env: Mapping[str, str]) -> None:
    """Start a server, which ends with the session; wait until it listens.

    It is no descendant of this process: some tests kill all of theirs.
    """
    address, log = Path(f"{name}.socket"), Path(f"{name}.log")
    module = Path(__file__).with_name("server.py")
    given = f"{str(address)!r}, {session}, {warmed.imports!r}"
    code = f"import runpy; runpy.run_path({str(module)!r})['main']({given})"
    prctl, adopts = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(37, ctypes.byref(adopts), 0, 0, 0)  # PR_GET_CHILD_SUBREAPER
    prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    with log.open("w") as output:
        detached = ["sh", "-c", '"$@" </dev/null &', "sh", str(warmed.python), "-c", code]
        subprocess.run(detached, cwd=ROOT, env=env, stdout=output, stderr=output, check=True)
    prctl(36, adopts.value, 0, 0, 0)
    end = time.monotonic() + SECONDS
    while not address.exists():
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.05)
