"""End a load of a checkpoint with an error when a tensor could not be read.

ms-swift 4.4.1 reads a checkpoint's shards in threads and never asks them for their result
(``swift/megatron/init.py: read_data``, ms-swift issue 10045, fixed in 4.6.0): tensors of a file
that is missing, truncated or unreadable keep their initial values, and the run trains on from them.
"""

from collections.abc import Callable
from types import CellType
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemReader

from launchers.exits import Exit, LaunchError

_READER = "_origin_read_data"
"""The variable by which upstream's threads find torch's own reader."""


def install() -> None:
    """Let each thread of ms-swift's reader note its error, and raise the first at the end."""
    upstream = FileSystemReader.read_data
    names = upstream.__code__.co_freevars
    if _READER in names:  # else it is torch's own reader, which raises
        _note_errors(upstream, (upstream.__closure__ or ())[names.index(_READER)])


def _note_errors(upstream: Callable[..., Any], cell: CellType) -> None:
    read_shard = cell.cell_contents
    failures: list[BaseException] = []

    def noting(*given: Any) -> Any:
        try:
            return read_shard(*given)
        except BaseException as error:
            failures.append(error)
            raise

    def read_data(self: Any, plan: Any, planner: Any) -> Any:
        """Read the tensors of a plan."""
        failures.clear()
        done = upstream(self, plan, planner)
        if failures:
            raise LaunchError(
                Exit.IO,
                f"{self.path}: {len(failures)} reads of the checkpoint failed, the first with "
                f"{failures[0]!r}",
                "look at the workspace's storage; the next attempt resumes from the newest "
                "checkpoint that is complete",
                id="checkpoint-read",
            ) from failures[0]
        return done

    cell.cell_contents = noting
    FileSystemReader.read_data = read_data
