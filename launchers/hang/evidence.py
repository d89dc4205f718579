"""Gather what this node's training processes are doing: states, stacks, flight recorder."""

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.hang import flight_recorder, stacks
from launchers.hang.worker import BLOCKED, Worker
from launchers.system.proc_stat import read_stat
from launchers.system.step_board import Reading, StepBoard
from launchers.system.threads import in_thread

DUMP_SECONDS = 6.0
"""Time in which it writes its flight recorder's dump: its thread looks once a second."""
KEEP_SECONDS = 5.0
"""Time for copying the files to the workspace, which may be what hangs."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One node's training processes, and where their evidence goes."""

    board: StepBoard
    node: int
    """This launcher's rank."""
    local: Path
    """Folder on the node's own disk: stacks, pipes and dumps."""
    attempt: Path
    """Folder of the attempt on the workspace."""

    def gather(self) -> list[Worker]:
        """Return the evidence of each process; keep stacks and dumps in the attempt's folder.

        Takes up to ``DUMP_SECONDS``, py-spy's time and ``KEEP_SECONDS``.
        """
        readings = self.board.read()
        before = [_state(each) for each in readings]
        sizes = [stacks.size(stacks.path_of(self.local, n)) for n in range(len(readings))]
        asked = [self._ask(n, each) for n, each in enumerate(readings)]
        self._await(sizes, asked)
        workers = [
            self._worker(n, each, before[n], sizes[n]) for n, each in enumerate(self.board.read())
        ]
        with contextlib.suppress(TimeoutError):
            in_thread(lambda: self._keep(workers), KEEP_SECONDS)
        return workers

    def _rank(self, local_rank: int) -> int:
        return self.node * len(self.board.read()) + local_rank

    def _ask(self, local_rank: int, reading: Reading) -> tuple[bool, bool]:
        """Ask a process for stacks and dump; return which of them it can be expected to give."""
        if not reading.pid:
            return False, False  # a process that has no handler yet would be ended by the signal
        runs = _state(reading) not in ("", "T", "t", "Z", "X")
        with contextlib.suppress(OSError):
            os.kill(reading.pid, stacks.SIGNAL)
        return runs, flight_recorder.ask(self.local, self._rank(local_rank)) and runs

    def _await(self, sizes: Sequence[int], asked: Sequence[tuple[bool, bool]]) -> None:
        """Wait until all have written what they were asked for, or the time is over."""
        begin = time.monotonic()

        def is_missing(local_rank: int, waited: float) -> bool:
            stack, dump = asked[local_rank]
            lacks = (
                stack and stacks.size(stacks.path_of(self.local, local_rank)) <= sizes[local_rank]
            )
            dumped = stacks.size(flight_recorder.dump_of(self.local, self._rank(local_rank))) > 0
            return (lacks and waited < stacks.SECONDS) or (dump and not dumped)

        while (waited := time.monotonic() - begin) < DUMP_SECONDS:
            if not any(is_missing(n, waited) for n in range(len(asked))):
                break
            time.sleep(_POLL_SECONDS)
        time.sleep(_POLL_SECONDS)  # the last file may still grow

    def _worker(self, local_rank: int, reading: Reading, before: str, size: int) -> Worker:
        text = _read(stacks.path_of(self.local, local_rank)).decode(errors="replace")
        dump = _read(flight_recorder.dump_of(self.local, self._rank(local_rank)))
        state, now = _state(reading), time.monotonic()
        if BLOCKED in (state, before) and state != before:
            state = "S"  # a short wait for a disk
        return Worker(
            rank=self._rank(local_rank),
            node=self.node,
            boundary=reading.boundary,
            phase=reading.phase.name.lower(),
            age=round(now - reading.beat, 1) if reading.beat else 0.0,
            loads=reading.loads,
            writes=round(now - reading.write_beat, 1) if reading.write_beat else 0.0,
            is_done=reading.is_done,
            state=state,
            frames=stacks.main_frames(text, text.encode()[size:].decode(errors="replace")),
            groups=flight_recorder.parse(dump) if dump else (),
        )

    def _keep(self, workers: Sequence[Worker]) -> None:
        """Copy stacks and dumps to the workspace; then add what py-spy finds."""
        try:
            for local_rank, worker in enumerate(workers):
                text = _read(stacks.path_of(self.local, local_rank))
                if text:
                    self._kept(local_rank).write_bytes(text)
                dump = flight_recorder.dump_of(self.local, worker.rank)
                if dump.exists():
                    folder = self.attempt / "flight-recorder"
                    folder.mkdir(exist_ok=True)
                    shutil.copyfile(dump, folder / dump.name)
            for local_rank, reading in enumerate(self.board.read()):
                if reading.pid and (text := stacks.py_spy(reading.pid)):
                    with self._kept(local_rank).open("ab") as stream:
                        stream.write(text)
        except OSError as error:
            logs.warning("evidence of a hang not kept", folder=self.attempt, cause=error)

    def _kept(self, local_rank: int) -> Path:
        return self.attempt / f"stacks-{self.node}-{local_rank}.txt"


def _state(reading: Reading) -> str:
    stat = read_stat(reading.pid) if reading.pid else None
    return stat.state if stat is not None else ("X" if reading.pid else "")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
