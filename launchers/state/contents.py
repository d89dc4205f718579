"""List and remove the runs of a workspace.

Only folders below `ROOT/runs` are removed. A name is one path component. The folder is opened below
the workspace by file descriptors that follow no links, renamed, and removed by `shutil.rmtree`
relative to the descriptor of `runs/`, which follows no links either. A removal that was interrupted
leaves `.NAME.removing`, which is listed as a run in the state `removing`; the next one of that name
removes it.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from launchers.config.workspace import Workspace
from launchers.state.document import Fields, State
from launchers.storage.disk import size

PARTS = ("attempts", "checkpoints", "export")
RUN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,98}[a-z0-9])?")
"""Names of releases and of their rehearsals."""
ENDED, REMOVING = "succeeded", "removing"
"""States of a run that does not resume: with an export; in a removal that was interrupted."""
KEPT = ".kept-"
"""In the names of what a user has edited, or of another run: the launcher renamed it."""
LOCK = "run.lock"
"""Begin of the files that name the launcher which leads a run (`Workspace.lock`)."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class RefusedError(Exception):
    """A run must not be removed, or could not be; its text says why."""


def inventory(root: Path) -> list[Fields]:
    """Return the runs of a workspace, by name.

    Raises:
        RefusedError: they cannot be listed.
    """
    read = State(Workspace(root=root, run=""))
    homes = [root / "runs" / name for name in read.names(root / "runs")]
    if read.problems:
        raise RefusedError(f"the runs cannot be listed: {read.problems[0]}")
    found = [describe(home) for home in homes if _is_run(home)]
    known = {each["run"] for each in found if each["state"] != REMOVING}
    return [each for each in found if each["state"] != REMOVING or each["run"] not in known]


def _is_run(home: Path) -> bool:
    """Return whether a name is a folder, not a link; yes if it cannot be said, which is noted."""
    try:
        return S_ISDIR(home.lstat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def describe(home: Path) -> Fields:
    """Return one run, or the rest of one whose removal was interrupted."""
    read = State(Workspace.of(home))
    sized = partial(size, unread=read.note)
    sizes = {part: sized(home / part) for part in PARTS}
    sizes["other"] = sized(home) - sum(sizes.values())
    progress, exported = read.object(read.work.progress), read.is_folder(home / "export")
    found = read.checkpoints()
    saved = [
        {
            "step": each["step"],
            "complete": each["complete"],
            "bytes": sized(read.work.checkpoints / f"checkpoint-{each['step']}"),
        }
        for each in found
    ]
    removed = re.fullmatch(rf"\.({RUN.pattern})\.{REMOVING}", home.name)
    state = REMOVING if removed else str(progress.get("state") or "")
    may_resume = state != REMOVING and not (state == ENDED and exported)
    kept = [
        {"path": path.relative_to(home).as_posix(), "bytes": sized(path)}
        for folder in (home, read.work.checkpoints)
        for path in (folder / name for name in read.names(folder) if KEPT in name)
    ]
    unread = [*read.problems, *(f"{name} is torn" for name in read.torn if may_resume)]
    pending = (each["step"] for each in found if each["parts"] and may_resume)
    unread += [f"step {step} is on the nodes' disks" for step in pending]
    unread += [each["cause"] for each in found if each["cause"] and may_resume]
    return {
        "run": removed[1] if removed else home.name,
        "state": state,
        "bytes": sizes,
        "checkpoints": saved,
        "newest": max((each["step"] for each in saved if each["complete"]), default=None),
        "export": exported,
        "kept": kept,
        "may_resume": may_resume,
        "updated": progress.get("updated"),
        "unread": next(iter(unread), ""),
    }


def is_name(text: str) -> bool:
    """Return whether a text may be the name of a run: one path component, here and in the API.

    >>> [is_name(each) for each in ("dpo-42", "dpo.rehearsal", "", "..", "a/b", "A", "a..b")]
    [True, True, False, False, False, False, False]
    """
    return bool(RUN.fullmatch(text)) and ".." not in text


def chosen(root: Path, names: Iterable[str]) -> list[Fields]:
    """Return the runs to remove, each once.

    Raises:
        RefusedError: with all that must not be removed, and why; then nothing is.
    """
    names = list(dict.fromkeys(names))
    for name in names:
        if not is_name(name):
            raise RefusedError(
                f"{name!r} is not the name of a run, such as dpo-42; nothing is removed"
            )
    held = {each["run"]: each for each in inventory(root)}
    refused = [why for name in names if (why := refusal(root, name, held.get(name)))]
    if refused:
        raise RefusedError(f"{'; '.join(refused)}; nothing is removed")
    return [held[name] for name in names]


def refusal(root: Path, name: str, run: Fields | None) -> str:
    """Return why a run must not be removed; empty if it may be."""
    if run is None:
        return f"{name}: the workspace has no such run"
    if run["state"] == REMOVING:
        return ""
    home = root / "runs" / name
    read = State(Workspace.of(home))
    there = read.names(home)
    if errors := [*filter(None, [run["unread"]]), *read.problems]:
        return f"{name}: not read in full, so whether it may resume is not known: {errors[0]}"
    if "progress.json" not in there:
        return f"{name}: without progress.json it is not known to be a run"
    if any(each.startswith(LOCK) for each in there):  # the lock, or a file of its writer
        return f"{name}: {LOCK} says that a launcher leads it; stop the run"
    if run["may_resume"] and run["newest"] is not None:
        return (
            f"{name}: may resume from checkpoint-{run['newest']} (state "
            f"{run['state'] or 'unknown'}{'' if run['export'] else ', no export'}); let it end, or "
            "remove it by hand"
        )
    return ""


def remove(root: Path, name: str) -> None:
    """Remove the folder of one run.

    Raises:
        RefusedError: the run must not be removed (any more), or something could not be.
    """
    chosen(root, [name])
    moved = f".{name}.{REMOVING}"
    try:
        with opened(root) as runs:
            if is_there(moved, runs):
                shutil.rmtree(moved, dir_fd=runs)
            if is_there(name, runs):
                os.close(os.open(name, _FOLDER, dir_fd=runs))  # a folder of its own, not a link
                os.rename(name, moved, src_dir_fd=runs, dst_dir_fd=runs)
                shutil.rmtree(moved, dir_fd=runs)
    except OSError as error:
        raise RefusedError(f"{name} was not removed, or only a part: {error}") from None


def is_there(name: str, runs: int) -> bool:
    """Return whether `runs/` has an entry, also a link to nothing."""
    try:
        os.lstat(name, dir_fd=runs)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def opened(root: Path) -> Iterator[int]:
    """Yield a descriptor of `runs/`; the workspace itself may be given by a link."""
    if not shutil.rmtree.avoids_symlink_attacks:
        raise RefusedError("this system has no way to remove folders that follows no links")
    above = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        runs = os.open("runs", _FOLDER, dir_fd=above)
    finally:
        os.close(above)
    try:
        yield runs
    finally:
        os.close(runs)


def answer(verb: str, root: Path, names: Sequence[str]) -> Fields:
    """Return the document of a verb.

    Args:
        verb: ``list`` for the runs, or those to remove and ``why`` they must not be; ``remove`` for
            those that were ``removed``, and ``why`` the rest was not.
        root: the workspace.
        names: of the runs; for ``list`` also none for all.
    """
    key = {"list": "runs", "remove": "removed"}[verb]
    found: list[Any] = []
    try:
        if verb == "list":
            found += chosen(root, names) if names else inventory(root)
        else:
            for each in chosen(root, names):
                remove(root, each["run"])
                found.append(each["run"])
    except RefusedError as error:
        return {key: found, "why": str(error)}
    return {key: found, "why": ""}
