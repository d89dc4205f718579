"""The processes of a standby: what they import, and which worker torchrun gets."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from launchers.standby import agent
from launchers.standby.agent import Worker, install, rank_variables
from launchers.standby.message import READY, outcome
from launchers.standby.worker import has_context, modules
from scripts.dev.flags import site_packages
from tests.launchers.training.fake_upstream import lay
from tests.launchers.training_environment import TRAIN, needs_training
from tests.launchers.waiting import eventually

TORCH, HANDLER = "torch/distributed", "elastic/multiprocessing/subprocess_handler"

WAITS = """
import os, socket, sys
from launchers.standby.message import Waiting
waiting = Waiting(socket.socket(fileno=int(sys.argv[-1])))
waiting.become()
print("became", sys.argv, os.environ["RANK"], flush=True)
"""
RANK = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}


class Handler:
    """Stands for torch's SubprocessHandler (torch 2.11)."""

    def __init__(self, args: Sequence[str], env: Mapping[str, str], out: Path) -> None:
        self._stdout, self._stderr = out.open("w"), None
        self.proc = self._popen(args, env)

    def _popen(self, args: Sequence[str], env: Mapping[str, str]) -> Any:
        return subprocess.Popen(args, env=env, stdout=self._stdout)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    (tmp_path / "waits.py").write_text(WAITS)
    monkeypatch.setattr(agent, "WORKER", "waits")
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:{tmp_path}")
    # the class of this test is replaced for the time of the test
    monkeypatch.setattr(Handler, "_popen", Handler._popen)
    return Worker("rlhf.py", RANK)


def output(handler: Handler) -> str:
    assert handler.proc.wait() == 0
    handler._stdout.close()
    return Path(handler._stdout.name).read_text()


ARGS = (sys.executable, "-u", "-c", "print('new')")


def test_torchrun_gets_the_waiting_worker_of_its_rank(worker: Worker, tmp_path: Path) -> None:
    install(Handler, [worker])
    handler = Handler(ARGS, {**os.environ, **RANK}, tmp_path / "out")
    assert handler.proc is worker.process
    assert output(handler) == f"became {list(ARGS[2:])} 3\n"


@pytest.mark.parametrize(
    ("args", "change"),  # the last one is as with a binding to NUMA nodes
    [(ARGS, {"RANK": "2"}), (ARGS, {"LOCAL_RANK": "0"}), (("/usr/bin/env", *ARGS), {})],
)
def test_torchrun_starts_a_new_worker_where_none_fits(
    worker: Worker, tmp_path: Path, args: Sequence[str], change: dict[str, str]
) -> None:
    install(Handler, [worker])
    handler = Handler(args, {**os.environ, **RANK, **change}, tmp_path / "out")
    assert handler.proc is not worker.process and output(handler) == "new\n"
    if "LOCAL_RANK" in change:
        worker.connection.close()  # torchrun has another worker to start for it
    assert worker.process.wait(60) is not None


def test_torchrun_starts_a_new_worker_for_one_that_was_killed(
    worker: Worker, tmp_path: Path
) -> None:
    worker.process.kill()
    worker.process.wait()
    install(Handler, [worker])
    assert output(Handler(ARGS, {**os.environ, **RANK}, tmp_path / "out")) == "new\n"


def test_another_torch_starts_all_workers_itself(worker: Worker, tmp_path: Path) -> None:
    class Other(Handler):
        def _popen(self, args: Sequence[str], env: Mapping[str, str], more: int = 0) -> Any:
            return super()._popen(args, env)

    install(Other, [worker])
    handler = Other(ARGS, {**os.environ, **RANK}, tmp_path / "out")
    assert output(handler) == "new\n" and worker.process.wait(60) == 0


def test_ranks_of_a_worker_are_torchruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert rank_variables(1, nproc=2, first=2, world=4) == {**RANK, "OMP_NUM_THREADS": "1"}
    assert "OMP_NUM_THREADS" not in rank_variables(0, nproc=1, first=1, world=2)
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert rank_variables(0, nproc=2, first=0, world=2)["OMP_NUM_THREADS"] == "6"


SLOW = """
import os, pathlib, socket, sys, time
from launchers.standby.message import READY, Waiting
waiting, rank = Waiting(socket.socket(fileno=int(sys.argv[-1]))), os.environ["RANK"]
pathlib.Path(f"{rank}.begun").touch()
while not (go := pathlib.Path(f"{rank}.go")).exists():
    time.sleep(0.01)
waiting.report(go.read_text() or READY)
waiting.become()
"""


@pytest.mark.parametrize("said", [READY, "ImportError: no swift"])
def test_two_workers_import_at_a_time(tmp_path: Path, said: str) -> None:
    lay(tmp_path, {"slow.py": SLOW, f"{TORCH}/run.py": "", f"{TORCH}/{HANDLER}.py": ""})
    ours, theirs = socket.socketpair()
    program = "from launchers.standby import agent; agent.WORKER = 'slow'; agent.main({})"
    words = ["rlhf.py", "3", "0", "3", str(theirs.fileno())]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    argv = [sys.executable, "-c", program.format(words)]
    agents = subprocess.Popen(argv, cwd=tmp_path, env=env, pass_fds=[theirs.fileno()])
    theirs.close()
    with agents, ours:
        begun = partial(tmp_path.glob, "*.begun")
        assert eventually(lambda: len([*begun()]) == 2)
        time.sleep(0.2)
        assert {path.name for path in begun()} == {"0.begun", "1.begun"}
        (tmp_path / "0.go").touch()
        assert eventually(lambda: len([*begun()]) == 3)
        assert outcome(ours, block=False) is None
        (tmp_path / "1.go").touch()
        (tmp_path / "2.go").write_text("" if said == READY else said)
        assert outcome(ours, block=True) == said


def test_modules_are_those_of_the_backend_and_its_features() -> None:
    megatron = modules(Path("/s/cli/_megatron/rlhf.py"), {"DPO_FEATURES": "heartbeat,fused_norm"})
    assert megatron == [
        "swift.megatron.pipelines.train.rlhf",
        "swift.megatron.trainers.dpo_trainer",
        "launchers.hang.heartbeat",
        "launchers.training.optimizer.fused_norm",
    ]
    assert modules(Path("/s/cli/sft.py"), {})[0] == "swift.pipelines.train.sft"


WRAPS = """
import upstream
_found = upstream.step
def install():
    upstream.step = lambda: [__name__, *_found()]
"""
CHAIN = """
import sys
import launchers, upstream
from launchers.standby import worker
launchers.__path__.append(sys.argv[1])
worker.modules = lambda *_: ["launchers.first", "launchers.second"]
worker.runpy = worker.socket = upstream
worker.Waiting = upstream.Waiting
worker.main(["/s/rlhf.py", "0"])
"""
UPSTREAM = """
import importlib
class Waiting:
    def __init__(self, _): ...
    def report(self, said): ...
    def become(self): ...
def socket(**_): ...
def step(): return ["upstream"]
def run_path(*_, **__):
    for name in ("launchers.first", "launchers.second"):
        importlib.import_module(name).install()
    import upstream
    print(upstream.step())
"""


def test_features_wrap_what_those_before_them_have_installed(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {"upstream.py": UPSTREAM, "launchers/first.py": WRAPS, "launchers/second.py": WRAPS},
    )
    done = subprocess.run(
        [sys.executable, "-c", CHAIN, str(tmp_path / "launchers")],
        env={**os.environ, "PYTHONPATH": f"{Path.cwd()}:{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['launchers.second', 'launchers.first', 'upstream']\n", done.stderr


@needs_training
def test_modules_of_each_task_exist() -> None:
    site = site_packages(TRAIN)
    for folder in ("cli", "cli/_megatron"):
        for task in ("rlhf", "sft", "pt"):
            assert (site / "swift" / folder / f"{task}.py").is_file()
            for name in modules(site / "swift" / folder / f"{task}.py", {}):
                assert (site / name.replace(".", "/")).with_suffix(".py").is_file(), name


class Driver:
    """Stands for CUDA's driver; device 1 may have a context."""

    def __init__(self, active: int, error: int = 0) -> None:
        self._active, self._error = active, error

    def cuDevicePrimaryCtxGetState(self, device: int, flags: Any, active: Any) -> int:  # noqa: N802
        ctypes.cast(active, ctypes.POINTER(ctypes.c_int))[0] = self._active if device == 1 else 0
        return self._error


def test_a_context_on_any_gpu_is_seen() -> None:
    assert has_context(Driver(active=1), 2)
    assert not has_context(Driver(active=1), 1)
    assert not has_context(Driver(active=0), 2)
    assert not has_context(Driver(active=1, error=3), 2)  # the driver is not initialised
