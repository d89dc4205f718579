"""The identity of code: every cache whose content code has made has it in its key.

The code of a cache is the image's packages, the launcher, and what training imports from elsewhere:
``code.pythonPath``, plugins, ``PYTHONPATH`` and editable installations. Times of files do not
count: an archive sets them all to 0, and a new clone to now. A test lists the keys.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from launchers import PACKAGE, version
from launchers.config.workspace import Workspace
from launchers.storage import manifest
from launchers.system import lookup
from launchers.system.threads import each
from launchers.upstream.record import LAUNCHER

SOURCES = (".py", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
"""Name endings of the files that count: what Python imports, and what it compiles when imported."""


def identity(
    packages: Iterable[str],
    *,
    env: Mapping[str, str] = os.environ,
    plugins: Iterable[Path] = (),
    launcher: bool = True,
) -> dict[str, object]:
    """Return the code that fills a cache as JSON, without places and times.

    With one of ``plugins`` in a clone the whole clone counts.

    Raises:
        OSError: code cannot be read.
    """
    names = tuple(packages)
    own = {LAUNCHER: version.own_digest(env.get("DPO_LAUNCHER_DIGEST", ""))} if launcher else {}
    roots = [*map(_home, plugins), *_editable(names), *_outside(env)]
    return {**own, "packages": installed(names), "code": [*map(_digest, dict.fromkeys(roots))]}


def name(found: Mapping[str, object]) -> str:
    """Return a short name of an identity, for a folder.

    >>> name({"packages": {}, "code": []})
    'ea530a4bb47d'
    """
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return version and digest of each installed distribution.

    The digest is that of ``RECORD``, which lists the digests of all files: builds of one branch
    have the same version.
    """
    found = {}
    for each_name in packages:
        with suppress(metadata.PackageNotFoundError):
            one = metadata.distribution(each_name)
            listed = hashlib.sha256((one.read_text("RECORD") or "").encode()).hexdigest()
            found[each_name] = f"{one.version} {listed[:12]}"
    return found


def _editable(packages: Iterable[str]) -> Iterator[Path]:
    """Yield the folders of editable installations, whose ``RECORD`` lists no source (PEP 610)."""
    for each_name in packages:
        with suppress(metadata.PackageNotFoundError):
            text = metadata.distribution(each_name).read_text("direct_url.json")
            origin = json.loads(text or "{}")
            if origin.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(origin["url"]).path))


def _home(plugin: Path) -> Path:
    return Workspace.clone_of(plugin) or plugin.parent


def _outside(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders outside the image's Python from which its processes import."""
    image = [Path(place).resolve() for place in {sys.prefix, sys.base_prefix}]
    for given in filter(None, [*env.get("PYTHONPATH", "").split(":"), *sys.path]):
        path = Path(given).resolve()
        if path != PACKAGE.parent.resolve() and not any(map(path.is_relative_to, image)):
            yield path


def _digest(root: Path) -> str:
    """Return the digest of the names and contents of a folder's sources, or of an archive."""
    there = [root] if lookup.exists(root) else []
    found = lookup.certain(lambda: list(_sources(root)), root) if lookup.is_dir(root) else there
    digests = each(lambda path: lookup.certain(lambda: _sha256(path), path), found or [])
    pairs = zip(found or [], digests, strict=True)
    lines = [f"{p.relative_to(root).as_posix()} {d}" for p, d in pairs]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return manifest.entry(path.resolve()).sha256


def _sources(root: Path) -> Iterator[Path]:
    """Yield the sources below a folder, of linked ones once; hidden folders are not code."""
    seen = set()
    for here, folders, names in os.walk(root, onerror=_raise, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            folders[:] = []
            continue
        seen.add(real)
        folders[:] = sorted(each_name for each_name in folders if each_name[0] != ".")
        yield from (Path(here, n) for n in sorted(names) if n.endswith(SOURCES))


def _raise(error: OSError) -> None:
    raise error
