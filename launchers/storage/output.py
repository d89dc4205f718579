"""Outputs of stages: made once, atomically, and resumable after a kill.

Inputs -> work in ``<name>.partial`` -> verify -> marker -> fsync -> rename. The final name never
holds a partial output, and an older output stays until the newer one is complete.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from launchers import logs
from launchers.config.settings import SKIPS
from launchers.exits import Exit, LaunchError
from launchers.storage import disk, manifest, marker, run_lease
from launchers.storage.lock import Lock
from launchers.storage.manifest import Manifest
from launchers.storage.marker import Marker
from launchers.system import lookup
from launchers.system.atomic_file import flush, partial_of, replace
from launchers.system.log_periodically import log_periodically
from launchers.system.remedies import STORAGE_REMEDY
from launchers.units import GIB

FULL = GIB
"""Largest output, in bytes, whose digests are compared when it is found on the workspace. For
larger ones only sizes are compared: reading 60 GB takes a minute of all GPUs at each restart."""

RECORD = ".making.json"
"""Inputs of a partial output, stored inside it; only equal inputs resume it."""

OWN = (marker.NAME, RECORD, *(partial_of(Path(name)).name for name in (marker.NAME, RECORD)))
"""Files of a partial output that are no part of it."""

BULK = (".safetensors", ".bin", ".distcp", ".arrow")
"""Files that no one edits: one that differs is damaged."""
UNLISTED = (".git", "__pycache__")
"""Folders of an output that are no user's, at any depth."""

State = Literal["done", "up to date", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """Result of a stage for one output."""

    stage: str
    name: str
    state: State
    why: str
    path: Path
    made: Marker | None = None
    """The marker at ``path``."""
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        """Return the digest of the marker; empty without one."""
        return marker.digest(self.made) if self.made else ""


@dataclass(frozen=True, kw_only=True)
class Made:
    """Optional facts about an output, returned by its maker."""

    manifest: Manifest | None = None
    """Manifest of files that ``make`` has just verified; avoids digesting them again."""
    notes: Mapping[str, object] = field(default_factory=dict)
    """Recorded in the marker, outside its digest."""


Make = Callable[[Path], Made | None]


def produce(
    stage: str,
    name: str,
    path: Path,
    inputs: Mapping[str, object],
    make: Make,
    *,
    skip: bool,
    holder: str,
    is_cache: bool = False,
    verifies: bool = False,
) -> Outcome:
    """Make an output unless it is up to date.

    Args:
        stage: the stage, for logs.
        name: the output, for logs.
        path: its final folder.
        inputs: inputs as JSON; equal inputs make an equal output.
        make: fills the given folder, which may hold files of a killed attempt.
        skip: SKIP_<STAGE>=1: use the existing output.
        holder: name of the maker, shown to processes that wait for the lock.
        is_cache: only the launcher writes there: a folder without a marker is half removed.
        verifies: ``make`` compares files that it finds with their digests, and removes others: it
            gets those of which a torn marker or note does not say what they were made from, too.

    Raises:
        LaunchError: INPUT_MISSING when a skipped output does not exist; QUOTA, IO from the disk;
            CONFIG when the path holds files the launcher did not make; errors of ``make``.
    """
    started = time.monotonic()
    if skip:
        return trusted(stage, name, path)
    wanted = marker.plain(inputs)
    state: State = "up to date"
    with disk.reporting(path):
        found = None if lookup.exists(replaced(path)) else usable(path, wanted)
        if found is None:
            disk.make_folder(path.parent)
            with Lock(path.with_name(f"{path.name}.lock"), holder) as lock:
                restore(path)
                found, wrong = _examined(path, wanted)  # another may have made it meanwhile
                if found is None or wrong:
                    if is_cache and marker.read(path) is None:
                        disk.remove(path)
                    state = "done"
                    wrong = wrong or (_torn(path) if verifies else [])
                    found = _made(stage, name, path, wanted, make, wrong, verifies)
                    lock.check()
                    run_lease.check()
                    into_place(path)
    seconds = time.monotonic() - started
    sizes = {"files": len(found.manifest), "bytes": manifest.total(found.manifest)}
    logs.info(f"{stage} {state}", name=name, path=path, **sizes, seconds=seconds)
    why = "" if state == "done" else state
    return Outcome(stage, name, state, why, path, found, seconds)


def trusted(stage: str, name: str, path: Path, there: Path | None = None) -> Outcome:
    """Use an existing output without verification, as the user requested.

    ``there`` must exist; ``path`` has the marker, if the launcher made the output.

    Raises:
        LaunchError: INPUT_MISSING when it does not exist.
    """
    setting = SKIPS[stage]
    wanted = there or path
    if not lookup.exists(wanted):
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{setting}=1, but {wanted} does not exist",
            f"set stages.{stage}.skip: false, or put {name} at {wanted}",
            id="skipped-output-missing",
        )
    logs.info(f"{stage} skipped: {setting}=1", name=name, path=wanted)
    return Outcome(stage, name, "skipped", f"{setting}=1", path, marker.read(path))


def usable(path: Path, wanted: Mapping[str, Any]) -> Marker | None:
    """Return the marker at ``path`` if its inputs match and its files are intact."""
    found, problems = _examined(path, wanted)
    return None if problems else found


def _examined(path: Path, wanted: Mapping[str, Any]) -> tuple[Marker | None, list[str]]:
    """Return the marker at ``path`` if its inputs match, and what ``manifest.verify`` finds."""
    found = marker.read(path)
    if found is None or found.inputs != wanted:
        return None, []
    problems = manifest.verify(path, found.manifest, manifest.total(found.manifest) <= FULL)
    if problems:
        logs.warning("output damaged", path=path, problems=len(problems), first=problems[0])
    return found, problems


def _torn(path: Path) -> list[str]:
    """Return the files of an output with a torn marker, in the form of ``manifest.verify``."""
    if not lookup.exists(path / marker.NAME) or marker.read(path) is not None:
        return []
    found = [*manifest.files(path, (marker.NAME,)), path / marker.NAME]
    return [f"{each.relative_to(path).as_posix()}: {marker.NAME} is torn" for each in found]


def _made(
    stage: str,
    name: str,
    path: Path,
    wanted: dict[str, Any],
    make: Make,
    wrong: Sequence[str],
    verifies: bool,
) -> Marker:
    """Make the output in its partial folder, or repair there what is ``wrong``."""
    folder = partial_path(path)
    salvage(path, wrong)
    refuse_foreign(stage, path)
    if not wrong and (found := usable(folder, wanted)):  # killed between marker and rename
        return found
    begin(folder, wanted, verifies=verifies)
    logs.info(f"{stage} start", name=name, path=path)
    started = time.monotonic()
    with log_periodically(f"{stage} working", lambda: {"name": name, "bytes": disk.size(folder)}):
        made = make(folder) or Made()
        return _seal(folder, wanted, made, time.monotonic() - started)


def _seal(folder: Path, wanted: dict[str, Any], made: Made, seconds: float) -> Marker:
    """Verify a partial output and write its marker."""
    listed = manifest.digest_folder(folder, OWN) if made.manifest is None else made.manifest
    problems = manifest.verify(folder, listed, full=False)
    if problems:
        raise LaunchError(Exit.IO, f"{folder}: {problems[0]}", STORAGE_REMEDY, id="output-damaged")
    disk.flush_tree(folder)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    made_as = {"seconds": round(seconds, 3), "at": at, **made.notes}
    found = Marker(inputs=wanted, manifest=listed, made=made_as)
    marker.write(folder, found)
    return found


def partial_path(path: Path) -> Path:
    """Return the partial folder of an output."""
    return path.with_name(f"{path.name}.partial")


def replaced(path: Path) -> Path:
    """Return the temporary name of the older output during a replacement: no user's backup."""
    return path.with_name(f".{path.name}.replaced")


def refuse_foreign(stage: str, path: Path) -> None:
    """Refuse to replace files that the launcher did not make: they may be the user's.

    What has a marker that cannot be parsed is renamed.

    Raises:
        LaunchError: CONFIG for such files; IO for a link to a volume that is not mounted.
    """
    if lookup.is_dir(path) and not lookup.entries(path):
        path.rmdir()
    if lookup.is_link(path) and not lookup.exists(path):
        raise LaunchError(
            Exit.IO,
            f"{path} is a link to {path.readlink()}, which {socket.gethostname()} does not see",
            "mount the volume that it leads to, or remove the link",
            id="output-link-broken",
        )
    if lookup.exists(path / marker.NAME):
        if marker.read(path) is None:
            disk.keep(path)
    elif lookup.exists(path):
        use = f"set stages.{stage}.skip: true to use it as it is, or " if stage in SKIPS else ""
        raise LaunchError(
            Exit.CONFIG,
            f"{path} exists without a marker, so the launcher did not make it",
            f"{use}remove it",
            id="output-foreign",
        )


def refuse_links(partial: Path, files: Iterable[Path]) -> None:
    """Refuse folders in a partial output that lead out of it: files there are not its own.

    Raises:
        LaunchError: CONFIG with the first such folder.
    """
    own = partial.resolve()
    for folder in sorted({file.parent for file in files}):
        if not folder.resolve().is_relative_to(own):
            raise LaunchError(
                Exit.CONFIG,
                f"{folder} leads through a symbolic link to {folder.resolve()}, outside of {own}",
                "remove the link; the files where it leads stay",
                id="output-link",
            )


def salvage(path: Path, wrong: Sequence[str]) -> None:
    """Rename an output with damage, as ``manifest.verify`` says it, to a partial one, to repair it.

    A changed file that is none of weights or rows may be edited, and is renamed first.
    """
    if wrong:
        names = [each.partition(": ")[0] for each in wrong if not each.endswith(": missing")]
        own = (*BULK, marker.NAME)
        disk.keep(path, [path / name for name in names if not name.endswith(own)])
        discard(partial_path(path))
        path.rename(partial_path(path))
        flush(path.parent)  # before ``begin`` removes the marker, which shows who made it


def begin(partial: Path, wanted: dict[str, Any], *, verifies: bool = False) -> None:
    """Keep files of an earlier attempt with the same inputs; remove others.

    ``verifies``: as of ``produce``.
    """
    left = marker.read(partial)
    recorded: object = None if left is None else dict(left.inputs)
    with contextlib.suppress(ValueError):
        recorded = json.loads(lookup.text(partial / RECORD) or "")
    is_torn = recorded is None and {RECORD, marker.NAME} & lookup.entries(partial).keys()
    if recorded != wanted and not (is_torn and verifies):
        discard(partial)
        partial.mkdir()
    replace(partial / RECORD, json.dumps(wanted, sort_keys=True) + "\n")
    (partial / marker.NAME).unlink(missing_ok=True)


def discard(partial: Path) -> None:
    """Remove a partial output; rename what no launcher has begun."""
    names = lookup.entries(partial)
    own = {RECORD, marker.NAME, partial_of(partial / RECORD).name}
    if own & names.keys() or (lookup.is_dir(partial) and not names):
        disk.remove(partial)
    elif lookup.status(partial, follow=False) is not None:
        disk.keep(partial)


def into_place(path: Path) -> None:
    """Rename the complete output to its final name; keep an older one until then.

    Files that the older one's manifest does not list are a user's, and are renamed.
    """
    if (found := marker.read(path)) is not None:
        names = {p.relative_to(path): p for p in manifest.files(path, (marker.NAME, *UNLISTED))}
        others = (n for n in names if not {*UNLISTED} & {*n.parts})
        disk.keep(path, [names[n] for n in others if n.as_posix() not in found.manifest])
        path.rename(replaced(path))
    (partial_path(path) / RECORD).unlink(missing_ok=True)
    partial_path(path).rename(path)
    flush(path.parent)
    disk.remove(replaced(path))


def restore(path: Path) -> None:
    """Finish or undo a replacement that a kill interrupted."""
    if not lookup.exists(replaced(path)):
        return
    if lookup.exists(path):
        disk.remove(replaced(path))
    else:
        replaced(path).rename(path)
