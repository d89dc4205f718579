"""The end of a run: its last checkpoint in Hugging Face format, under one name."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from launchers import checkpoint, marker
from launchers.exits import Exit, LaunchError
from launchers.output import Outcome, produce, usable
from launchers.workspace import Workspace

SUFFIXES = (".json", ".jinja", ".model", ".py", ".safetensors", ".txt")
TRAINER_STATE = (checkpoint.COMPLETE, "latest_checkpointed_iteration.txt", "trainer_state.json")


def is_exported(work: Workspace, inputs: Mapping[str, object]) -> bool:
    """Tell whether the run has already ended with these inputs, and its files are there."""
    return usable(work.export, marker.plain(inputs)) is not None


def export(work: Workspace, inputs: Mapping[str, object], *, holder: str) -> Outcome:
    """Put the newest complete checkpoint's Hugging Face files into ``export/``.

    Raises:
        LaunchError: INPUT_MISSING when training left no complete checkpoint, or one without
            safetensors.
    """
    last = checkpoint.newest(work.checkpoints)
    if last is None:
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"training ended, and {work.checkpoints} has no complete checkpoint",
            "let it save: remove save_strategy and save_only flags from recipe.args",
        )
    files = hugging_face_files(last.path)
    if not any(file.suffix == ".safetensors" for file in files):
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{last.path} has no safetensors: there are no weights to export",
            "remove save_safetensors from recipe.args, and choose another release name",
        )

    def make(folder: Path) -> None:
        for file in files:
            link_or_copy(file, folder / file.name)

    return produce("export", work.run, work.export, dict(inputs), make, skip=False, holder=holder)


def hugging_face_files(folder: Path) -> list[Path]:
    """List the files of a checkpoint that a reader of Hugging Face format needs."""
    return [
        p
        for p in sorted(folder.iterdir())
        if p.is_file() and p.suffix in SUFFIXES and p.name not in TRAINER_STATE
    ]


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system has no links; replaces what is there."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        shutil.copy2(source, target)
