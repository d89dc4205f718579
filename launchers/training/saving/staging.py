"""One rank's saves through its node's disk, see ``storage/node_disk.py``.

Nothing that fails on that disk ends the run: the files are written to the workspace instead, from
the same copy in host memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.exits import LaunchError
from launchers.hang import heartbeat
from launchers.storage import checkpoint, disk, node_disk
from launchers.storage.node_disk import Written
from launchers.training.saving.files import File

Write = Callable[[Sequence[File]], list[Any]]


class Staging:
    """The node's disk, as one rank uses it in one save after the other."""

    def __init__(self, rank: int, env: Mapping[str, str]) -> None:
        """Read the settings; ``LOCAL_WORLD_SIZE`` is torchrun's."""
        self._rank, self._root = rank, Path(env[node_disk.FOLDER])
        self._limit = int(env.get(node_disk.LIMIT) or 0)
        self._processes = int(env.get("LOCAL_WORLD_SIZE", "1"))
        self._is_first = env.get("LOCAL_RANK", "0") == "0"
        self._has_room = self._is_staged = self._has_warned = False

    def make_room(self, checkpoints: Path) -> None:
        """Delete older checkpoints from this disk, once per node, while no rank writes."""
        if not self._is_first:
            return
        try:
            node_disk.make_room(self._root, checkpoints)
        except (OSError, LaunchError) as error:
            self._warn(error)

    def reserve(self, size: int) -> None:
        """Decide whether the next save goes to this disk, while no rank writes.

        ``size``: bytes of this rank's tensors.
        """
        needed = size * self._processes
        try:
            self._has_room = node_disk.has_room(self._root, needed, self._limit)
        except (OSError, LaunchError) as error:
            self._has_room = False
            self._warn(error)
        else:
            if not self._has_room:
                self._warn(f"no room for {needed / 1e9:.3f} GB")

    def write(self, files: Sequence[File], write: Write) -> tuple[list[Any], Written]:
        """Write and digest this rank's files; return torch's results, and the digests.

        Raises:
            OSError: of the workspace.
        """
        self._is_staged = False
        if self._has_room and files:
            folder = _folder(files)
            local = self._root / folder.name
            try:
                paths = [local / Path(each.path).relative_to(folder) for each in files]
                for path in paths:
                    disk.make_folder(path.parent)
                staged = [replace(f, path=str(p)) for f, p in zip(files, paths, strict=True)]
                results = write(staged)
                checkpoint.digest_own(local, self._rank)
                self._is_staged = True
                return results, checkpoint.rank_digests(local, self._rank)
            except (OSError, LaunchError) as error:
                self._warn(error)
        return self._write_through(files, write)

    def copy(self, files: Sequence[File], write: Write) -> None:
        """Copy to the workspace what ``write`` has put on this disk.

        Raises:
            OSError: of the workspace.
        """
        if not self._is_staged:
            return
        folder = _folder(files)
        try:
            flushed = heartbeat.current().note_flush
            node_disk.copy_shards(self._root / folder.name, folder, self._rank, flushed)
        except (OSError, LaunchError) as error:
            self._warn(error)
            self._write_through(files, write)

    def _write_through(self, files: Sequence[File], write: Write) -> tuple[list[Any], Written]:
        """Write to the workspace."""
        results = write(files)
        if not files:
            return results, {}
        checkpoint.digest_own(_folder(files), self._rank)
        return results, checkpoint.rank_digests(_folder(files), self._rank)

    def _warn(self, cause: object) -> None:
        """Warn, once, that this disk is not used."""
        if not self._has_warned:
            self._has_warned = True
            logs.warning("a checkpoint is written to the workspace at once", cause=cause)


def _folder(files: Sequence[File]) -> Path:
    """Return ``checkpoint-<step>``: upstream writes into its folder ``iter_<step>``."""
    return Path(files[0].path).parents[1]
