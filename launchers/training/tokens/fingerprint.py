"""Everything that the rows of a tokenised dataset depend on: equal inputs, equal rows.

ms-swift's own cache (``load_from_cache_file``) only keeps lengths, in the pod, and does not notice
a change of a plugin's code: in a test it returned the rows of the old code. Here the contents of
everything that affects a row are compared.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from launchers.config.sources import split_count
from launchers.storage import manifest, marker
from launchers.system import lookup
from launchers.upstream import code_identity

FORMAT = 2
"""Version of the files in a cache folder; increment it when their meaning changes."""
IGNORED = ("dataset_num_proc", "load_from_cache_file", "download_mode", "cached_dataset")
"""Data arguments of ms-swift that change no row."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
_ABOVE = 4
"""Number of parent folders that may contain a file's marker."""


def inputs(
    *,
    flags: Mapping[str, object],
    datasets: Iterable[str],
    plugins: Iterable[Path],
    model: Path,
    versions: Mapping[str, str],
) -> dict[str, object]:
    """Return what the rows depend on as JSON, without times or host names.

    Args:
        flags: all data and template arguments.
        datasets: files or folders, each with an optional ``#samples``, and files that flags name.
        plugins: the user's plugins; they may import Python files of their folder and below, and
            those of the folders from which training imports.
        model: folder with tokenizer and chat template.
        versions: versions of the packages that make the rows.
    """
    plugins = list(plugins)
    found = (model / name for name in lookup.entries(model) if not name.endswith(_WEIGHTS))
    small = [path for path in found if lookup.is_file(path)]
    return {
        "format": FORMAT,
        "flags": {k: v for k, v in sorted(flags.items()) if k not in IGNORED},
        "datasets": [content(path_of(each)) for each in datasets],
        "plugins": [code(plugin) for plugin in plugins],
        "model": {p.name: _read(p) for p in small},
        "versions": dict(versions),
        "code": code_identity.identity(versions, plugins=plugins),
    }


def path_of(dataset: str) -> Path:
    """Return the path of a dataset that ms-swift is given with an optional ``#samples``.

    >>> path_of("/data/a.jsonl#500").name
    'a.jsonl'
    """
    path = Path(dataset)
    return path if lookup.exists(path) else Path(split_count(dataset)[0])


def content(path: Path) -> dict[str, str]:
    """Return the digests of a file, or of all files of a folder.

    Digests of the download stage's marker are used if the sizes agree, because reading is slow.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - links keep their names, as in the marker
    found = (
        [path] if lookup.is_file(path) else sorted(set(manifest.files(path, skip=(marker.NAME,))))
    )
    return _digests(found, path.parent, path)


def _digests(found: Iterable[Path], start: Path, near: Path) -> dict[str, str]:
    listed = _listed(near)
    return {p.relative_to(start).as_posix(): listed.get(p) or _read(p) for p in found}


def _listed(path: Path) -> dict[Path, str]:
    """Return the digests in the nearest marker of those files that have the size it lists."""
    for folder in [path, *path.parents[:_ABOVE]]:
        found = marker.read(folder)
        if found is not None:
            listed = {folder / name: entry for name, entry in found.manifest.items()}
            return {p: e.sha256 for p, e in listed.items() if p.is_file() and _is(p, e.size)}
    return {}


def _is(path: Path, size: int) -> bool:
    return not path.is_symlink() and path.stat().st_size == size


def _read(path: Path) -> str:
    return manifest.entry(path.resolve()).sha256


def _known(error: OSError) -> None:
    if not isinstance(error, PermissionError | FileNotFoundError):
        raise lookup.unknown(error, Path(error.filename))


def code(plugin: Path) -> dict[str, str]:
    """Return the digests of a plugin and of all Python files in its folder and below.

    What is closed to this user, such as lost+found of a volume, Python cannot import either.
    """
    plugin = Path(os.path.abspath(plugin))  # noqa: PTH100 - as in ``content``
    home = plugin.parent
    below = (Path(root, n) for root, _, names in os.walk(home, onerror=_known) for n in names)
    found = {plugin, *(p for p in below if p.suffix == ".py" and lookup.is_file(p))}
    seen = [p for p in sorted(found) if p.relative_to(home).parts[0][0] != "."]
    return _digests(seen, home, home)


def folder(workspace: Path, made_from: Mapping[str, object]) -> Path:
    """Return the folder for the rows of these inputs.

    >>> folder(Path("/w"), {"format": 1}).parent.as_posix()
    '/w/cache/tokens'
    """
    text = json.dumps(made_from, sort_keys=True)
    return workspace / "cache" / "tokens" / hashlib.sha256(text.encode()).hexdigest()[:32]
