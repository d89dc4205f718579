"""Remove runs from a mounted workspace: their folders below `runs/`, and nothing else.

A name is one path component. The folder is opened below the workspace by file descriptors that
follow no links, renamed, and removed by `shutil.rmtree` relative to the descriptor of `runs/`,
which follows no links either. A removal that was interrupted leaves `.NAME.removing`, which the
next one of that name removes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from launchers.config.workspace import Workspace
from scripts.control import inventory
from scripts.control.cleaning import Held, parse_inventory
from scripts.problem import Problem

RUN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,98}[a-z0-9])?")
"""Names of releases and of their rehearsals."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def chosen(workspace: Path, names: Sequence[str]) -> list[Held]:
    """Return the runs to remove.

    Args:
        workspace: folder where the workspace is mounted.
        names: of the runs.

    Raises:
        Problem: with all that must not be removed, and why; then nothing is.
    """
    for name in names:
        if not RUN.fullmatch(name) or ".." in name:
            raise Problem(f"{name!r} is not the name of a run, such as dpo-42; nothing is removed")
    held = {each.run: each for each in parse_inventory(inventory.inventory(workspace))}
    refused = [why for name in names if (why := _refusal(workspace, name, held.get(name)))]
    if refused:
        raise Problem(f"{'; '.join(refused)}; nothing is removed")
    return [held[name] for name in dict.fromkeys(names)]


def _refusal(workspace: Path, name: str, found: Held | None) -> str:
    """Return why a run must not be removed; empty if it may be."""
    if found is None:
        return f"{name}: the workspace has no such run"
    paths = Workspace(root=workspace, run=name)
    if not paths.progress.is_file():
        return f"{name}: without progress.json it is not known to be a run"
    if any(paths.home.glob(f"{paths.lock.name}*")):  # the lock, or a file of its writer
        return f"{name}: {paths.lock.name} says that a launcher leads it; stop the run"
    if found.may_resume and found.newest is not None:
        return (
            f"{name}: may resume from checkpoint-{found.newest} (state {found.state or 'unknown'}"
            f"{'' if found.has_export else ', no export'}); let it end, or remove it by hand"
        )
    return ""


def remove(workspace: Path, name: str) -> None:
    """Remove the folder of one run.

    Args:
        workspace: folder where the workspace is mounted.
        name: of the run.

    Raises:
        Problem: the run must not be removed (any more), or something could not be.
    """
    chosen(workspace, [name])
    moved = f".{name}.removing"
    try:
        with _opened(workspace) as runs:
            os.close(os.open(name, _FOLDER, dir_fd=runs))  # a folder of its own, not a link
            if os.access(moved, os.F_OK, dir_fd=runs, follow_symlinks=False):
                shutil.rmtree(moved, dir_fd=runs)
            os.rename(name, moved, src_dir_fd=runs, dst_dir_fd=runs)
            shutil.rmtree(moved, dir_fd=runs)
    except OSError as error:
        raise Problem(f"{name} was not removed, or only a part: {error}") from None


@contextmanager
def _opened(workspace: Path) -> Iterator[int]:
    """Yield a descriptor of `runs/`; the workspace itself may be given by a link."""
    if not shutil.rmtree.avoids_symlink_attacks:
        raise Problem("this system has no way to remove folders that follows no links")
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        runs = os.open("runs", _FOLDER, dir_fd=root)
    finally:
        os.close(root)
    try:
        yield runs
    finally:
        os.close(runs)
