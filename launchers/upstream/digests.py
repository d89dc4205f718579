"""Adds the sources of installed packages to ``digests.json``, those that were read."""

import json
import re
from collections.abc import Callable, Iterable, Mapping

from launchers import PACKAGE
from launchers.exits import Exit, LaunchError
from launchers.system.atomic_file import replace
from launchers.upstream import source
from launchers.upstream.patches import FILE, SHORT, Digests, Function
from launchers.upstream.versions import parse_version

PROJECT = PACKAGE.parent / "pyproject.toml"
"""Which only a checkout has."""


def write(functions: Iterable[Function]) -> list[str]:
    """Add the sources of the installed packages to ``digests.json``.

    ``functions``: of all patches; any other is removed.

    Returns:
        A line for each release of a function that was added, to be reviewed as read.

    Raises:
        LaunchError: USAGE, outside a checkout.
    """
    if not PROJECT.exists():
        what = f"patches --write changes {FILE.name}, and {FILE.parent} is not in a checkout"
        remedy = "run it in a checkout, with the Python whose packages were read"
        raise LaunchError(Exit.USAGE, what, remedy, id="patches-no-checkout")
    before: Digests = json.loads(FILE.read_text(encoding="utf-8"))
    made: Digests = {name: {} for name in before}
    added = []
    for f in sorted(set(functions), key=lambda f: (f.package, f.place)):
        read = before.get(f.package, {}).get(f.module, {}).get(f.name, {})
        version = source.version(f.package).partition("+")[0]
        if version and source.file_of(f.module) is not None:
            now = merged(read, version, source.digest(f.module, f.name)[:SHORT])
            if list(now.values()) != list(read.values()):
                added.append(f"{f.place} of {f.package} {version}")
            read = now
        made[f.package].setdefault(f.module, {})[f.name] = read
    replace(FILE, text(made))
    return added


def text(digests: Digests) -> str:
    r"""Return the text of the file, a line for each function.

    >>> text({"a": {"a.b": {"f": {"0": "1.0", "": "1.1"}}}}).split("\n")[3]
    '   "f": {"0": "1.0", "": "1.1"}'
    """
    indented = json.dumps(digests, indent=1) + "\n"
    return re.sub(r"\{\s*([^{}]*?)\s*\}", lambda m: f"{{{' '.join(m[1].split())}}}", indented)


def merged(read: Mapping[str, str], version: str, digest: str) -> dict[str, str]:
    """Return a function's sources with one more release.

    Oldest releases come first, whenever they were read.

    >>> merged({"a": "1.0, 1.2"}, "1.1", "a"), merged({"a": "1.0"}, "1.1", "")
    ({'a': '1.0, 1.1, 1.2'}, {'a': '1.0', '': '1.1'})
    """
    parts = [*filter(None, read.get(digest, "").split(", "))]
    if any(map(_holds(version), parts)):
        return dict(read)
    whole = {**read, digest: ", ".join(sorted([*parts, version], key=parse_version))}
    return dict(sorted(whole.items(), key=lambda item: parse_version(item[1])))


def _holds(version: str) -> Callable[[str], bool]:
    """Return whether ``1.0`` or ``1.0 to 1.2`` has a release."""

    def holds(part: str) -> bool:
        first, _, last = part.partition(" to ")
        return parse_version(first) <= parse_version(version) <= parse_version(last or first)

    return holds
