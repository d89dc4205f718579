"""Fetch a repository of any hub to the workspace: choose files, download and verify them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from launchers import logs
from launchers.config.sources import Kind, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.listing import HubFile, Listing, wanted
from launchers.storage import disk, manifest
from launchers.storage.manifest import Entry
from launchers.storage.output import Made
from launchers.system.retry import RetryPolicy, retry
from launchers.system.threads import each, in_thread

T = TypeVar("T")

WORKERS = 8
"""Files fetched at a time."""
REPOSITORY = ".repository"
"""Folder of the repository's files inside the partial output."""


class Hub(Protocol):
    """The operations in which hubs differ."""

    def list(self) -> Listing:
        """List the repository's files."""

    def fetch(self, file: HubFile, commit: str, folder: Path, *, afresh: bool) -> None:
        """Fetch one file into ``folder``, resuming a killed attempt's part unless ``afresh``."""

    def translate(self, error: Exception) -> Failure | None:
        """Translate an error; None when it is not the hub's, the network's or the disk's."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error of a hub's client, in the launcher's terms."""

    error: LaunchError
    transient: bool


def fetch(
    hub: Hub, source: Source, kind: Kind, partial: Path, policy: RetryPolicy | None = None
) -> Made:
    """Fetch a source into a partial output, as ``<partial>/<source.name>``.

    Raises:
        LaunchError: AUTH, INPUT_MISSING, UNAVAILABLE, QUOTA, IO, CONFIG; see ``translate``.
    """
    root, target = partial / REPOSITORY, partial / source.name
    found = root / source.path
    if target.exists() and not found.exists():  # a killed or damaged output: resume it
        found.parent.mkdir(parents=True, exist_ok=True)
        target.rename(found)
    root.mkdir(exist_ok=True)
    listing = _try(hub, source.text, lambda: in_thread(hub.list), policy)
    files = wanted(listing, source, kind)
    disk.require_space(partial, sum(f.size for f in files) - disk.size(root))
    logs.info("download files", name=source.text, files=len(files), bytes=_bytes(files))
    entries = each(lambda f: _one(hub, f, listing.commit, root, policy), files, WORKERS)
    found.rename(target)
    disk.remove(root)
    _prune(target, {(target / _under(f.path, source)).resolve() for f in files})
    held = {_name(f.path, source): e for f, e in zip(files, entries, strict=True)}
    return Made(manifest=held, notes={"commit": listing.commit})


def _under(path: str, source: Source) -> str:
    return path.removeprefix(source.path).lstrip("/")


def _name(path: str, source: Source) -> str:
    """Return a file's path relative to the output's folder."""
    return "/".join(filter(None, [source.name, _under(path, source)]))


def _bytes(files: Sequence[HubFile]) -> int:
    return sum(f.size for f in files)


def _prune(target: Path, keep: set[Path]) -> None:
    """Remove what a hub's client left next to the files: caches, locks, partial files."""
    if not target.is_dir():
        return
    for path in list(manifest.files(target)):
        if path.resolve() not in keep:
            path.unlink()
    folders = [p for p in sorted(target.rglob("*"), reverse=True) if p.is_dir()]
    for folder in folders:
        if not any(folder.iterdir()):
            folder.rmdir()


def _try(hub: Hub, what: str, act: Callable[[], T], policy: RetryPolicy | None) -> T:
    """Run ``act``, retrying transient errors; raise the last one in the launcher's terms."""

    def transient(error: Exception) -> bool:
        failure = hub.translate(error)
        return failure is not None and failure.transient

    try:
        return retry(what, act, transient, policy)
    except LaunchError:
        raise
    except Exception as error:
        failure = hub.translate(error)
        if failure is None:
            raise
        raise failure.error from error


def _one(hub: Hub, file: HubFile, commit: str, root: Path, policy: RetryPolicy | None) -> Entry:
    """Fetch one file and verify it; after a wrong digest fetch it once more."""
    path = root / file.path
    entry = _matching(path, file)
    for afresh in (False, True):
        if entry is not None:
            return entry
        path.unlink(missing_ok=True)

        def get(afresh: bool = afresh) -> None:
            hub.fetch(file, commit, root, afresh=afresh)

        _try(hub, file.path, get, policy)
        entry = _matching(path, file)
        if entry is None:
            logs.warning("download wrong", file=file.path, wanted=file.digest, kind=file.kind)
    if entry is not None:
        return entry
    raise LaunchError(
        Exit.IO,
        f"{file.path} was downloaded twice with another digest than the hub's ({file.digest[:12]})",
        "try again later, or check the proxy or mirror between the pods and the hub",
        id="hub-digest",
    )


def _matching(path: Path, file: HubFile) -> Entry | None:
    """Return the file's entry if it is there and what the hub lists."""
    if not path.is_file() or path.stat().st_size != file.size:
        return None
    entry = manifest.entry(path)
    if file.kind == "git":
        blob = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
        return entry if manifest.read(path, blob)[1] == file.digest else None
    return entry if file.kind == "none" or entry.sha256 == file.digest else None
