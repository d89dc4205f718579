"""Signs of life of a save that stops training, by either trainer.

Upstream writes in the training process or in forks of it, without a call of ours until its end. So
a thread looks for files of checkpoints that these have open for writing, and flushes each that has
grown by ``disk.FLUSHED_BYTES``: a flush that returns is a heartbeat.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from launchers.storage import disk
from launchers.system.process import descendants
from launchers.system.step_board import Phase, StepBoard

POLL_SECONDS = 2.0
_ACCESS = os.O_WRONLY | os.O_RDWR


class Parts:
    """The files below a folder that this process and its children write, and what is flushed."""

    def __init__(self, folder: Path) -> None:
        """Begin with nothing flushed."""
        self._folder = folder.resolve()
        self._done: dict[tuple[int, int], int] = {}
        """Flushed bytes of each file, by device and inode."""

    def flush(self) -> Iterator[Path]:
        """Flush the files that have grown enough; yield each once it is on the disk."""
        for path in self._written():
            with suppress(OSError):  # closed or renamed meanwhile; or the writer notices it, too
                found = path.stat()
                key = (found.st_dev, found.st_ino)
                done = min(self._done.get(key, 0), found.st_size)
                if found.st_size - done >= disk.FLUSHED_BYTES:
                    handle = os.open(path, os.O_RDONLY)
                    try:
                        os.fdatasync(handle)
                    finally:
                        os.close(handle)
                    done = found.st_size
                    yield path
                self._done[key] = done

    def _written(self) -> set[Path]:
        found = set()
        for pid in (os.getpid(), *descendants(os.getpid())):
            with suppress(OSError):  # it has ended
                for name in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(OSError, StopIteration, ValueError):
                        path = name.readlink()
                        if self._folder in path.parents and _is_written(pid, name.name):
                            found.add(path)
        return found


def _is_written(pid: int, descriptor: str) -> bool:
    """Return whether a descriptor is open for writing, see proc(5)."""
    text = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text()
    flags = next(line for line in text.splitlines() if line.startswith("flags:"))
    return bool(int(flags.split()[1], 8) & _ACCESS)


def watch(board: StepBoard, local_rank: int, folder: Path) -> None:
    """Give heartbeats for what is flushed below ``folder`` while a save stops training."""

    def work() -> None:
        parts = Parts(folder)
        while True:
            time.sleep(POLL_SECONDS)
            if board.read()[local_rank].phase == Phase.SAVE:
                for _ in parts.flush():
                    board.write(local_rank)

    threading.Thread(target=work, name="save-signs", daemon=True).start()
