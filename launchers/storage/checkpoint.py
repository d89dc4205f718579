"""Which checkpoint of a run is the newest that is whole.

ms-swift's own tracker file is written before the checkpoint is complete
(``swift/megatron/utils/megatron_lm_utils.py``, ``swift/megatron/trainers/base.py``), so only the
launcher's manifest counts: ``COMPLETE.json``, written last by ``swift_seal_*.py``.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

COMPLETE = "COMPLETE.json"
_FOLDER = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint."""

    path: Path
    step: int

    @property
    def has_megatron_state(self) -> bool:
        """Tell whether Megatron's distributed checkpoint (weights, optimizer) is in it."""
        return any(self.path.glob("iter_*/.metadata"))

    @property
    def is_merged_whole(self) -> bool:
        """Tell whether the merged model beside an adapter's checkpoint is complete."""
        return _sealed(merged(self.path)) == self.step


def merged(folder: Path) -> Path:
    """Return where ms-swift puts the model into which a checkpoint's adapter was merged.

    >>> merged(Path("checkpoints/checkpoint-8")).name
    'checkpoint-8-merged'
    """
    return folder.with_name(f"{folder.name}-merged")


def seal(folder: Path, step: int) -> Path:
    """Declare a checkpoint complete: list its files and sizes, flush it, rename the list in.

    Args:
        folder: ``checkpoint-<step>``, written in full by all ranks.
        step: optimizer steps done.
    """
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != COMPLETE]
    for file in files:
        flush(file)
    sizes = {str(p.relative_to(folder)): p.stat().st_size for p in files}
    manifest = folder / COMPLETE
    replace(manifest, json.dumps({"step": step, "files": sizes}, indent=1) + "\n")
    return manifest


def newest(checkpoints: Path) -> Checkpoint | None:
    """Return the complete checkpoint of the highest step, or None.

    A folder whose manifest is missing, unreadable, or lists a file that is gone or of another
    size is passed over: it was torn by a kill, or by a rotation that a kill interrupted.
    """
    found = [c for p in checkpoints.glob("checkpoint-*") if (c := read(p)) is not None]
    return max(found, key=lambda c: c.step, default=None)


def read(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in ``folder`` if it is complete."""
    match, step = _FOLDER.fullmatch(folder.name), _sealed(folder)
    if match is None or step is None or int(match.group(1)) != step:
        return None
    return Checkpoint(path=folder, step=step)


def _sealed(folder: Path) -> int | None:
    """Return the step of a folder whose manifest holds; None for any other."""
    try:
        manifest = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        files: dict[str, int] = manifest["files"]
        step = int(manifest["step"])
        whole = bool(files) and all((folder / f).stat().st_size == n for f, n in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return step if whole else None


def flush(path: Path) -> None:
    """Force a file's or folder's data to the disk (``fsync``)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, content: str | bytes, writer: str = "partial") -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Where several may write it at once, each names itself another ``writer``.
    """
    part = path.with_name(f".{path.name}.{writer}")
    with part.open("wb") as handle:
        handle.write(content if isinstance(content, bytes) else content.encode())
        handle.flush()
        os.fsync(handle.fileno())
    part.replace(path)
    flush(path.parent)
