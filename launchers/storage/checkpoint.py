"""Checkpoints of a run: seal one, find the newest that is complete.

ms-swift's own tracker file is written before the checkpoint is complete
(``swift/megatron/utils/megatron_lm_utils.py``, ``swift/megatron/trainers/base.py``), so only the
launcher's manifest counts: ``COMPLETE.json``, written last, once all ranks have saved.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from launchers.system.atomic_file import flush, replace

COMPLETE = "COMPLETE.json"
FEATURES = "features.json"
"""File with the launcher's features that trained it, see ``training/loading.py``; not exported."""
_FOLDER = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint."""

    path: Path
    step: int

    @property
    def has_megatron_state(self) -> bool:
        """Return whether it holds Megatron's distributed checkpoint (weights, optimizer)."""
        return any(self.path.glob("iter_*/.metadata"))

    @property
    def is_merged_whole(self) -> bool:
        """Return whether the merged model of an adapter's checkpoint is complete."""
        return _sealed(merged(self.path)) == self.step


def merged(folder: Path) -> Path:
    """Return the folder in which ms-swift puts the model merged with a checkpoint's adapter.

    >>> merged(Path("checkpoints/checkpoint-8")).name
    'checkpoint-8-merged'
    """
    return folder.with_name(f"{folder.name}-merged")


def seal(folder: Path, step: int) -> Path:
    """Mark a checkpoint complete: flush its files, then write their names and sizes atomically.

    Args:
        folder: ``checkpoint-<step>``, written in full by all ranks.
        step: number of completed optimizer steps.
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

    A folder is skipped if its manifest is missing or unreadable, or if a listed file is missing or
    has another size: a save or a rotation was interrupted.
    """
    return max(complete(checkpoints), key=lambda c: c.step, default=None)


def complete(checkpoints: Path) -> list[Checkpoint]:
    """Return all complete checkpoints, in no order."""
    return [c for p in checkpoints.glob("checkpoint-*") if (c := read(p)) is not None]


def read(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in ``folder`` if it is complete."""
    match, step = _FOLDER.fullmatch(folder.name), _sealed(folder)
    if match is None or step is None or int(match.group(1)) != step:
        return None
    return Checkpoint(path=folder, step=step)


def _sealed(folder: Path) -> int | None:
    """Return the step of a folder whose manifest matches its files; None otherwise."""
    try:
        manifest = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        files: dict[str, int] = manifest["files"]
        step = int(manifest["step"])
        whole = bool(files) and all((folder / f).stat().st_size == n for f, n in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return step if whole else None
