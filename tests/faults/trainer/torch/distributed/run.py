"""Stands for torchrun and its only worker in the fault matrix; trains in tenths of a second.

Its state is a chain of hashes over the steps, so that a lost, repeated or damaged step changes all
states after it. Like real ranks, the nodes wait for each other in each step, for ever, and stop at
the launcher's request (``launchers/stop/boundary.py``); rank 0 writes ``logging.jsonl``,
``metrics.jsonl`` and checkpoints, with the launcher's own seal and retention. The fault in
``FAULT_TRAIN`` (JSON) happens on its ``rank``, at its ``step``, in the first attempt.
"""

import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

from launchers.hang import heartbeat
from launchers.metrics import rows
from launchers.progress.trained import Trained
from launchers.stop.boundary import Boundary
from launchers.storage import checkpoint, retention
from launchers.system import process
from launchers.system.step_board import Phase, StepBoard
from tests.faults import syscalls
from tests.launchers import torchrun_arguments

STEPS, SAVE_EVERY, LIMIT = 8, 2, 2
STEP_SECONDS = 0.05
EXIT_BARRIER_SECONDS = 300.0
"""torchrun's, ``torch/distributed/elastic/agent/server/api.py``."""
RESUME = ("--resume_from_checkpoint", "--mcore_model")
"""Flags of the two trainers; the second also names a converted model."""
SHARD = "iter_{:07d}/__{}_0.distcp"
WEIGHTS = "model.safetensors"


def state_after(step: int) -> str:
    """Return the state of an undisturbed run after so many steps."""
    state = "start"
    for number in range(1, step + 1):
        state = hashlib.sha256(f"{state} {number}".encode()).hexdigest()
    return state


def launchers_board() -> StepBoard:
    board = StepBoard.of_process(os.environ)
    assert board is not None
    return board


def main() -> None:
    options = torchrun_arguments.parse()
    logs = Path(options.log_dir) / "none_x" / "attempt_0" / "0"
    logs.mkdir(parents=True)
    words = options.program
    given = (words[words.index(flag) + 1] for flag in RESUME if flag in words)
    resume = next((path for path in given if checkpoint.step_of(Path(path)) > 0), "")
    node = Node(
        rank=int(options.node_rank),
        nodes=int(options.nnodes),
        output=Path(words[words.index("--output_dir") + 1]),
        logs=logs,
        attempt=int(Path(os.environ["DPO_ATTEMPT_FOLDER"]).name),
    )
    node.train(resume)


class Node:
    def __init__(self, rank: int, nodes: int, output: Path, logs: Path, attempt: int) -> None:
        self.rank, self.nodes, self.output, self.logs = rank, nodes, output, logs
        self.attempt = attempt
        self.folder = Path(os.environ["DPO_ATTEMPT_FOLDER"]) / "steps"
        planned = json.loads(os.environ["FAULT_TRAIN"])
        mine = planned and int(planned["rank"]) in (rank, -1)
        always = planned.get("attempts", 1) >= attempt
        self.fault: dict[str, Any] = planned if mine and always else {}

    def train(self, resume: str) -> None:
        step, state = self.load(Path(resume)) if resume else (0, "start")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.output.mkdir(parents=True, exist_ok=True)
        heartbeat.current().begin()
        boundary = Boundary(os.environ)
        boundary.begin(step)
        while step < STEPS:
            step += 1
            self.act("step", step)
            self.meet(f"{step}")
            time.sleep(STEP_SECONDS)
            state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
            if self.rank == 0:
                self.log(step, state)
            saves, is_last = step % SAVE_EVERY == 0, step == STEPS
            stops = boundary.end_step(step, saves=saves, is_last=is_last)
            if saves or stops:
                self.save(step, state)
                stops = not is_last and boundary.end_save(step, stops=stops)
            if stops:
                boundary.stop(step)
                return
        if self.rank == 0:
            Trained.of(step, STEPS).write(self.folder.parent)
        heartbeat.current().note_trained()
        self.act("end", step)

    def load(self, folder: Path) -> tuple[int, str]:
        step = checkpoint.step_of(folder)
        return step, (folder / SHARD.format(step, self.rank)).read_text()

    def log(self, step: int, state: str) -> None:
        loss = int(state[:8], 16) / 2**32
        with (self.output / "logging.jsonl").open("a") as log:
            counter = f"{step}/{STEPS}"
            log.write(json.dumps({"loss": loss, "global_step/max_steps": counter}) + "\n")
        row = rows.Row(
            step=step,
            total=STEPS,
            attempt=self.attempt,
            time=time.time(),
            seconds=STEP_SECONDS,
            values={"loss": loss},
        )
        with (self.output.parent / "metrics.jsonl").open("a") as metrics:
            metrics.write(rows.line(row) + "\n")

    def save(self, step: int, state: str) -> None:
        """Write this rank's shard; rank 0 writes the weights, seals and deletes older ones."""
        folder = self.output / f"checkpoint-{step}"
        if self.rank == 0:
            retention.prepare(folder)
        self.meet(f"prepared-{step}")
        shard = folder / SHARD.format(step, self.rank)
        shard.parent.mkdir(parents=True, exist_ok=True)
        self.act("save", step)
        self.act("every-save", step)
        shard.write_text(state)
        checkpoint.digest_own(folder, self.rank)
        self.meet(f"save-{step}")
        if self.rank == 0:
            (shard.parent / ".metadata").write_text("the index of the shards")
            (folder / WEIGHTS).write_text(state)
            (folder / "config.json").write_text("{}")
            self.act("seal", step)
            checkpoint.seal(folder, step)
            retention.apply(self.output, LIMIT)
            self.act("sealed", step)
        self.meet(f"sealed-{step}")

    def meet(self, name: str, seconds: float = inf) -> None:
        stop = time.monotonic() + seconds
        (self.folder / f"{name}-{self.rank}").touch()
        others = [self.folder / f"{name}-{rank}" for rank in range(self.nodes)]
        while not all(other.exists() for other in others) and time.monotonic() < stop:
            time.sleep(0.01)

    def act(self, at: str, step: int) -> None:
        fault = self.fault
        if at == "every-save" and fault.get("do") == "slow-saves":  # the first, and the later ones
            time.sleep(fault["word"][step > SAVE_EVERY])
        if not fault or fault.get("at", "step") != at or int(fault["step"]) != step:
            return
        with Path(os.environ["FAULT_SIGN"]).open("a") as sign:
            sign.write(f"{time.time()}\n")
        what, word = fault["do"], str(fault.get("word", ""))
        if what == "die":  # torchrun survives its worker and reports it
            print(
                f"Root Cause (first observed failure):\n  exitcode  : {word} (pid: 1)", flush=True
            )
            sys.exit(1)
        if what == "stall":  # the workspace stalls, and torchrun ends
            Path(os.environ["FAULT_MOUNT"]).write_text("3600")
            os._exit(1)
        if what == "raise":
            (self.logs / "stderr.log").write_text(f"Traceback (most recent call last):\n{word}\n")
            sys.exit(1)
        if what == "kill":  # torchrun itself dies, or is stopped with its worker
            os.kill(os.getpid(), signal.Signals[word])
            time.sleep(600)
        if what == "segfault":
            ctypes.string_at(0)
        if what == "exit":
            sys.exit(int(word))
        if what == "terminate-pod":
            self.terminate_pod([os.getppid()])
        if what == "terminate-host":
            self.terminate_pod([os.getppid(), *process.descendants(os.getppid())])
        if what == "leave":
            self.leave()
        if what == "leave-a-child":
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
            sys.exit(1)
        if what == "slow":
            time.sleep(float(word))
        if what == "freeze":  # torchrun is stopped, and its worker has ended
            worker = subprocess.Popen(["true"])
            launchers_board().write(0, pid=worker.pid, phase=Phase.SAVE)
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "fail-and-hang":  # the worker has failed, and torchrun does not end
            (self.logs / "stderr.log").write_text(f"Traceback (most recent call last):\n{word}\n")
            worker = subprocess.Popen(["false"])
            worker.wait()
            launchers_board().write(0, pid=worker.pid)
            time.sleep(600)
        if what == "fail-calls":
            self.fail_calls(word)
        if what == "fill":
            self.fill()

    def terminate_pod(self, pids: Iterable[int]) -> None:
        """Send SIGTERM to these processes; the step lasts until the launcher asks for a stop."""
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        board = launchers_board()
        while not board.is_requested:
            time.sleep(0.01)

    def leave(self) -> None:
        """Be a torchrun whose worker has ended with 0: wait for those of the other nodes."""
        worker = subprocess.Popen(["true"])
        worker.wait()
        launchers_board().write(0, pid=worker.pid)
        self.meet("left", seconds=EXIT_BARRIER_SECONDS)
        sys.exit(0)

    def fail_calls(self, word: str) -> None:
        """Let each call of a kind fail from now on; end as Python does with its traceback."""
        name, _, error = word.partition(" ")
        syscalls.fail(name, error)
        sys.excepthook = self._write_traceback

    def fill(self) -> None:
        """Fill the workspace; end as Python does with its traceback."""
        sys.excepthook = self._write_traceback
        (self.logs / "stderr.log").write_bytes(b" " * 4096)  # torchrun has this file open before
        with (self.output / "filler").open("wb", buffering=0) as handle:
            while True:
                handle.write(bytes(65536))

    def _write_traceback(self, kind: type[BaseException], error: BaseException, _: object) -> None:
        text = f"Traceback (most recent call last):\n{kind.__name__}: {error}\n"
        (self.logs / "stderr.log").write_text(text)


if __name__ == "__main__":
    main()
