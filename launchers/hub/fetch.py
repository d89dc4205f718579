"""Fetch a source from its hub into the workspace: select files, download, verify."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from launchers import logs, suggestion
from launchers.config.sources import RepoType, Source
from launchers.exits import Exit, LaunchError
from launchers.hub.client import UNKNOWN, HubClient, HubFile, Listing
from launchers.hub.huggingface import HuggingFace
from launchers.hub.modelscope import ModelScope
from launchers.storage import disk, manifest
from launchers.storage.manifest import Entry
from launchers.storage.output import Made, refuse_links
from launchers.storage.seal_check import WEIGHTS, WEIGHTS_INDEX
from launchers.system import lookup
from launchers.system.atomic_file import read_object
from launchers.system.retry import retry
from launchers.system.threads import each, in_thread

T = TypeVar("T")

CONCURRENT_FILES = 8
REPOSITORY = ".repository"
"""Folder inside the partial output that receives the repository's tree."""
INDEX = f"model{WEIGHTS_INDEX}"
_OTHER_WEIGHTS = (
    ".bin", ".ckpt", ".gguf", ".h5", ".mlmodel", ".msgpack", ".onnx", ".onnx_data", ".ot",
    ".pdparams", ".pt", ".pth", ".tflite",
)  # fmt: skip


def client_for(source: Source, repo_type: RepoType) -> HubClient:
    """Return the client for a source's hub.

    Raises:
        LaunchError: CONFIG if the client is not installed.
    """
    return (HuggingFace if source.hub == "hf" else ModelScope)(source, repo_type)


def fetch(client: HubClient, source: Source, repo_type: RepoType, partial: Path) -> Made:
    """Fetch a source into a partial output, as ``<partial>/<source.name>``.

    Raises:
        LaunchError: AUTH, INPUT_MISSING, UNAVAILABLE, QUOTA, IO, CONFIG, DATA; see ``translate``
            and ``Listing``.
    """
    root, target = partial / REPOSITORY, partial / source.name
    found = root / source.path
    # of a killed attempt, or damaged: reuse its files
    if lookup.exists(target) and not lookup.exists(found):
        found.parent.mkdir(parents=True, exist_ok=True)
        target.rename(found)
    root.mkdir(exist_ok=True)
    listing = _retry(client, source.text, lambda: in_thread(client.list))
    files = select_files(listing, source, repo_type)
    refuse_links(partial, (root / file.path for file in files))
    index = next((f for f in files if _relative(f.path, source) == INDEX), None)
    if repo_type == "model" and index is not None:
        _fetch_file(client, index, listing.commit, root)
        named = read_object(root / index.path).get("weight_map")
        files = indexed(files, source, {*named.values()} if isinstance(named, dict) else set())
    disk.require_space(partial, _total_size(files) - disk.held(root))
    logs.info("download files", name=source.text, files=len(files), bytes=_total_size(files))
    entries = each(lambda f: _fetch_file(client, f, listing.commit, root), files, CONCURRENT_FILES)
    found.rename(target)
    disk.remove(root)
    _prune(target, {(target / _relative(f.path, source)).resolve() for f in files})
    made = {_output_path(f.path, source): e for f, e in zip(files, entries, strict=True)}
    return Made(manifest=made, notes={"commit": listing.commit})


def select_files(listing: Listing, source: Source, repo_type: RepoType) -> tuple[HubFile, ...]:
    """Select the files to fetch.

    Of a dataset: all files, or those below ``source.path``. Of a model with safetensors, which
    training reads: no weights in other formats (some repositories hold three copies of 60 GB);
    ``indexed`` leaves out more.

    Raises:
        LaunchError: INPUT_MISSING if no file matches; the remedy names the nearest path.
    """
    found = [f for f in listing.files if _is_below(f.path, source.path)]
    if not found:
        paths = [f.path for f in listing.files]
        raise LaunchError(
            Exit.INPUT_MISSING,
            f"recipe.{repo_type}: {source.text} contains no files",
            suggestion.remedy(source.path, paths) if paths else "use a repository that has files",
            id="hub-no-file",
        )
    if repo_type == "model" and any(f.path.endswith(WEIGHTS) for f in found):
        found = [f for f in found if not f.path.endswith(_OTHER_WEIGHTS)]
    return tuple(found)


def indexed(
    files: Sequence[HubFile], source: Source, named: Collection[str]
) -> tuple[HubFile, ...]:
    """Leave out the safetensors that a model's index does not name, such as a second copy.

    ``named`` are the index's files, relative to it; none: it is not an index, and all stay.

    Raises:
        LaunchError: DATA if the repository does not have all of them.
    """
    there = {_relative(file.path, source) for file in files}
    if missing := sorted(str(name) for name in named if name not in there):
        raise LaunchError(
            Exit.DATA,
            f"recipe.model: {source.text} has not {len(missing)} of the {len(named)} files that "
            f"{INDEX} names, such as {missing[0]}",
            "use a revision with all files",
            id="hub-index",
        )
    return tuple(
        file
        for file in files
        if not named or not file.path.endswith(WEIGHTS) or _relative(file.path, source) in named
    )


def _is_below(path: str, start: str) -> bool:
    return not start or path == start or path.startswith(f"{start}/")


def _relative(path: str, source: Source) -> str:
    return path.removeprefix(source.path).lstrip("/")


def _output_path(path: str, source: Source) -> str:
    """Return a file's path relative to the output's folder."""
    return "/".join(filter(None, [source.name, _relative(path, source)]))


def _total_size(files: Sequence[HubFile]) -> int:
    return sum(max(0, f.size) for f in files)


def _prune(target: Path, keep: set[Path]) -> None:
    """Remove what a hub's client left among the files: caches, locks, partial files."""
    if not target.is_dir():
        return
    for path in list(manifest.files(target)):
        if path.resolve() not in keep:
            path.unlink()
    folders = [p for p in sorted(target.rglob("*"), reverse=True) if p.is_dir()]
    for folder in folders:
        if not any(folder.iterdir()):
            folder.rmdir()


def _retry(client: HubClient, what: str, act: Callable[[], T]) -> T:
    """Retry transient errors of a client; raise the last error as a ``LaunchError``."""

    def transient(error: Exception) -> bool:
        failure = client.translate(error)
        return failure is not None and failure.transient

    try:
        return retry(what, act, transient)
    except LaunchError:
        raise
    except Exception as error:
        failure = client.translate(error)
        if failure is None:
            raise
        raise failure.error from error


def _fetch_file(client: HubClient, file: HubFile, commit: str, root: Path) -> Entry:
    """Fetch and verify one file; after a wrong digest, fetch it once more from scratch."""
    path = root / file.path
    entry = _verified(path, file)
    for from_scratch in (False, True):
        if entry is not None:
            return entry
        path.unlink(missing_ok=True)

        def get(from_scratch: bool = from_scratch) -> None:
            client.fetch(file, commit, root, from_scratch=from_scratch)

        _retry(client, file.path, get)
        entry = _verified(path, file)
        if entry is None:
            logs.warning(
                "download wrong", file=file.path, wanted=file.digest, kind=file.digest_type
            )
    if entry is not None:
        return entry
    raise LaunchError(
        Exit.IO,
        f"{file.path} was downloaded twice with another digest than the hub's ({file.digest[:12]})",
        "try again later, or check the proxy or mirror between the pods and the hub",
        id="hub-digest",
    )


def _verified(path: Path, file: HubFile) -> Entry | None:
    """Return the manifest entry of a downloaded file; None if it is not what the hub lists."""
    status = lookup.status(path)
    if status is None or not S_ISREG(status.st_mode) or file.size not in (status.st_size, UNKNOWN):
        return None
    entry = manifest.entry(path)
    if file.digest_type == "git":
        blob = hashlib.sha1(f"blob {status.st_size}\0".encode(), usedforsecurity=False)
        return entry if manifest.read(path, blob)[1] == file.digest else None
    return entry if file.digest_type == "none" or entry.sha256 == file.digest else None
