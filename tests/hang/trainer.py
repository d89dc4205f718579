"""Stand-in for ms-swift in the injected hangs: real ranks, real collectives, no model.

Every rank runs the launcher's own heartbeat and boundaries, reads batches with torch's DataLoader
and takes part in gloo's collectives of two process groups, as data- and expert-parallel groups are.
Every fourth step is saved, every rank a part. ``HANG_CASE`` is the fault (``cases.py``).
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store
from torch.utils.data import DataLoader, Dataset

from launchers.hang import heartbeat
from launchers.stop import finished
from launchers.stop.boundary import Boundary
from launchers.storage import checkpoint
from launchers.training.saving.background import Writes
from tests.hang.cases import Case

RANK = int(os.environ["RANK"])
CASE = Case.parse(os.environ["HANG_CASE"])
STEPS = 5000 if CASE.kind in ("launcher", "write") else 14
"""A frozen launcher is noticed after a minute; its ranks go on until then, as those do that do not
write a checkpoint."""
SAVES, STEP_SECONDS, FOREVER = 4, 0.1, 3600.0
SLOW_SECONDS = 1.5
"""Of a step of a slow rank; below the limit of the tests."""


def strikes(kind: str, step: int) -> bool:
    return (CASE.kind, CASE.rank) == (kind, RANK) and step == CASE.step


class Rows(Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return a row; block if the fault says so."""
        if strikes("loader", index + 1):
            time.sleep(FOREVER)
        return torch.ones(8)


class Trainer:
    def __init__(self, output: Path) -> None:
        dist.init_process_group("gloo")
        self._experts = dist.new_group(list(range(dist.get_world_size())))
        self._output, self._boundary = output, Boundary(os.environ)
        self._writes = Writes(RANK, dist.get_world_size(), _get_default_store())
        if CASE.kind == "write":
            self._writes.reserve(1, pins=False)
            assert self._writes._process is not None
            self._writes._process.write([])  # it imports torch, which may outlast the limit
        self._rows = iter(DataLoader(Rows(), num_workers=CASE.workers))

    def train(self) -> None:
        self._boundary.begin(0)
        for step in range(1, STEPS + 1):
            self._step(step)
            saves, is_last = is_saved(step), step == STEPS
            stops = self._boundary.end_step(step, saves=saves, is_last=is_last)
            if saves and not is_last:
                if CASE.kind == "write":
                    self._save_in_background(step)
                else:
                    self._save(step)
                self._boundary.end_save(step, stops=stops)
        self._save(STEPS)
        finished.record(STEPS, STEPS)
        finished.note_trained()

    def _step(self, step: int) -> None:
        if (CASE.rank, CASE.step) == (RANK, step) and CASE.kind != "write":
            mark()
        gradient = next(self._rows).sum()
        if strikes("stop", step):
            threading.Timer(CASE.delay, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        time.sleep(STEP_SECONDS)
        if CASE.kind == "none" and CASE.rank == RANK:
            time.sleep(SLOW_SECONDS)
        if strikes("absent", step):
            compute()
        if strikes("exit", step):
            os._exit(0)
        if (CASE.kind, CASE.step) == ("exit", step):
            compute()  # gloo notices that a peer has closed its connections, NCCL does not
        if not (strikes("skip", step) or strikes("first", step)):
            dist.all_reduce(gradient)
        self._norm(gradient)

    def _norm(self, gradient: torch.Tensor) -> None:
        dist.all_reduce(gradient, group=self._experts)

    def _save(self, step: int) -> None:
        folder = self._output / f"checkpoint-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        # the first save at or after the step
        if strikes("save", CASE.step) and CASE.step <= step < CASE.step + SAVES:
            mark()
            write_forever(folder / f"blocked-{RANK}")
        (folder / f"model-{RANK}.safetensors").write_bytes(b"weights")
        (folder / f"optimizer-{RANK}.pt").write_bytes(b"moments")
        dist.barrier()
        if RANK == 0:
            (folder / "config.json").write_text("{}")
            checkpoint.seal(folder, step)
        dist.barrier()

    def _save_in_background(self, step: int) -> None:
        """Save with the launcher's own threads; training continues."""
        folder = self._output / f"checkpoint-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        self._writes.copy([], [], lambda results: None)

        def written() -> None:
            if CASE.rank == RANK:
                mark()
                write_forever(folder / f"blocked-{RANK}")

        self._writes.start(step, written, lambda seconds: None)


def is_saved(step: int) -> bool:
    """Return whether a step is saved: in the background one, at or after the step of the fault."""
    return step % SAVES == 0 and (CASE.kind != "write" or CASE.step <= step < CASE.step + SAVES)


def mark() -> None:
    """Note the time at which the step of the fault begins."""
    part = Path(os.environ["HANG_MARK"]).with_suffix(".part")
    part.write_text(str(time.time()))
    part.rename(os.environ["HANG_MARK"])


def compute() -> None:
    values = torch.ones(64)
    stop = time.monotonic() + FOREVER
    while time.monotonic() < stop:
        values = values * 1.0001
        time.sleep(0.01)


def write_forever(path: Path) -> None:
    """Open a pipe that nobody reads, which blocks in the kernel as a write to lost storage does."""
    os.mkfifo(path)
    with path.open("wb") as stream:
        stream.write(b"weights")


def main() -> None:
    """Train; ``--output_dir`` is where ms-swift has its checkpoints."""
    words = sys.argv
    heartbeat.install()
    Trainer(Path(words[words.index("--output_dir") + 1])).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
