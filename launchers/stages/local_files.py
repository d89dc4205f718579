"""``file://`` sources: used in place on the workspace, or copied to it."""

import os
import shutil
import time
from pathlib import Path

from launchers import logs
from launchers.config.sources import Source
from launchers.exits import Exit, LaunchError
from launchers.storage import disk, manifest, marker
from launchers.storage.lock import Lock
from launchers.storage.manifest import Entry, Manifest
from launchers.storage.marker import Marker
from launchers.storage.output import Made, Outcome, produce, refuse_links
from launchers.system import lookup
from launchers.system.log_periodically import log_periodically
from launchers.system.threads import each

STAGE = "download"


def use_in_place(source: Source, home: Path, *, holder: str) -> Outcome:
    """Use files in place; write a marker with their digests to ``home``.

    Files are digested again only when a size or modification time has changed since. The marker
    names them, so that the other ranks look for the same (``storage/visible.py``).
    """
    started = time.monotonic()
    place = Path(source.repo)
    stats = _file_stats(place)
    there = marker.read(home)
    if there is None or there.made.get("seen") != stats:
        home.mkdir(parents=True, exist_ok=True)
        with Lock(home.with_name(f"{home.name}.lock"), holder):
            content = _read(source, place)
            seconds = round(time.monotonic() - started, 3)
            there = Marker(
                inputs={"source": source.text, "in place": True},
                manifest=content,
                made={"seen": stats, "place": str(place), "seconds": seconds},
            )
            marker.write(home, there)
    seconds = time.monotonic() - started
    logs.info("download up to date: used in place", name=source.text, seconds=seconds)
    return Outcome(STAGE, source.text, "up to date", "used in place", home, there, seconds)


def copy(source: Source, home: Path, *, holder: str) -> Outcome:
    """Copy files from outside the workspace; changed content is copied again."""
    place = Path(source.repo)
    stats = _file_stats(place)
    there = marker.read(home)
    if there is not None and there.made.get("seen") == stats:
        content: Manifest = {}
        digest = str(there.inputs.get("content"))
    else:
        content = _read(source, place)
        digest = marker.digest(Marker(inputs={}, manifest=content))

    def make(folder: Path) -> Made:
        held = _copy_all(place, folder / source.name, content or _read(source, place))
        return Made(manifest=held, notes={"seen": stats})

    inputs = {"source": source.text, "content": digest}
    return produce(STAGE, source.text, home, inputs, make, skip=False, holder=holder)


def _file_stats(place: Path) -> dict[str, list[int]]:
    """Return size in bytes and modification time in ns of each file, to detect changes."""
    if not lookup.exists(place):
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"file://{place} does not exist",
            "use a path on the workspace or on another volume mounted in the pods",
            id="source-file-missing",
        )
    found = manifest.files(place) if lookup.is_dir(place) else [place]
    stats = {str(p.relative_to(place)): _stat(p) for p in found}
    return {name: [s.st_size, s.st_mtime_ns] for name, s in stats.items()}


def _stat(path: Path) -> os.stat_result:
    found = lookup.status(path)
    if found is None:
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{path} is a link to {path.resolve()}, which does not exist",
            "copy a hub's cache with the targets of its links: cp -rL",
            id="source-link-broken",
        )
    return found


def _read(source: Source, place: Path) -> dict[str, Entry]:
    """Digest all files; symbolic links are followed (the hubs' caches have them)."""
    with log_periodically("download reading", lambda: {"name": source.text}):
        found = manifest.digest_folder(place, follow=True)
    if not found:
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"{source.text} is an empty folder",
            "use a folder that has files",
            id="source-folder-empty",
        )
    return found


def _copy_all(place: Path, target: Path, content: Manifest) -> dict[str, Entry]:
    """Copy the files that are missing; return the manifest of ``target``'s parent."""
    one_file = lookup.is_file(place)
    refuse_links(target.parent, [target] if one_file else [target / name for name in content])
    disk.require_space(target.parent, manifest.total(content) - disk.held(target.parent))

    def act(name: str) -> tuple[str, Entry]:
        goal = target if one_file else target / name
        _copy(place if one_file else place / name, goal, content[name])
        return goal.relative_to(target.parent).as_posix(), content[name]

    return dict(each(act, content))


def _copy(source: Path, goal: Path, wanted: Entry) -> None:
    if (
        lookup.is_file(goal)
        and goal.stat().st_size == wanted.size
        and manifest.entry(goal) == wanted
    ):
        return
    goal.parent.mkdir(parents=True, exist_ok=True)
    goal.unlink(missing_ok=True)
    shutil.copyfile(source, goal)
    if manifest.entry(goal) != wanted:
        raise LaunchError(
            Exit.IO,
            f"{source} changed while it was copied, or {goal} was not written correctly",
            "do not change the source during the copy, or check the storage of the workspace",
            id="source-changed",
        )
