"""``digests.json``, the sources that were read, and ``known.py``, made from it for the archive.

``digests.json`` has the functions of ``table.py`` by distribution, module and qualified name: the
SHA-256 of each source that was read, and its releases. ``known.py`` has the first digits alone:
whole ones are 5 kB more in a ConfigMap. A digest of 16 digits in ``digests.json`` is of a release
that was not at hand when whole ones were introduced; it is compared by these digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.system.atomic_file import replace
from launchers.upstream import source
from launchers.upstream.known import DIGITS
from launchers.upstream.patches import Function
from launchers.upstream.versions import parse_version

FILE = Path(__file__).with_name("digests.json")
KNOWN = FILE.with_name("known.py")
Digests = dict[str, dict[str, dict[str, dict[str, str]]]]
_BEFORE = "# fmt: off\nSOURCES: Mapping[str, Read] = "


def write(functions: Iterable[Function]) -> list[str]:
    """Add the sources of the installed packages to ``digests.json``; make ``known.py`` of it.

    Args:
        functions: of all patches; any other is removed.

    Returns:
        A line for each release of a function that was added, to be reviewed as read.

    Raises:
        LaunchError: USAGE, outside a checkout.
    """
    if not FILE.exists():
        what = f"patches --write needs {FILE}, which only a checkout has"
        remedy = "run it in a checkout, with the Python whose packages were read"
        raise LaunchError(Exit.USAGE, what, remedy, id="patches-no-checkout")
    before: Digests = json.loads(FILE.read_text(encoding="utf-8"))
    made: Digests = {name: {} for name in before}
    added = []
    for f in sorted(set(functions), key=lambda f: (f.package, f.place)):
        read = before.get(f.package, {}).get(f.module, {}).get(f.name, {})
        version = source.version(f.package).partition("+")[0]
        if version and source.file_of(f.module) is not None:
            now = merged(read, version, source.digest(f.module, f.name))
            if list(now.values()) != list(read.values()):
                added.append(f"{f.place} of {f.package} {version}")
            read = now
        made[f.package].setdefault(f.module, {})[f.name] = read
    replace(FILE, json.dumps(made, indent=1) + "\n")
    replace(KNOWN, code(made))
    return added


def merged(read: Mapping[str, str], version: str, digest: str) -> dict[str, str]:
    """Return a function's sources with one more release; a whole digest replaces its first digits.

    Oldest releases come first, whenever they were read.

    >>> merged({"0" * 16: "1.0 to 1.2"}, "1.1", "0" * 64) == {"0" * 64: "1.0 to 1.2"}
    True
    >>> merged({"a": "1.0, 1.2"}, "1.1", "a"), merged({"a": "1.0"}, "1.1", "")
    ({'a': '1.0, 1.1, 1.2'}, {'a': '1.0', '': '1.1'})
    """
    whole = {digest if each == digest[:DIGITS] else each: text for each, text in read.items()}
    releases = whole.get(digest, "")
    if not any(map(_holds(version), filter(None, releases.split(", ")))):
        parts = [*filter(None, releases.split(", ")), version]
        whole[digest] = ", ".join(sorted(parts, key=parse_version))
        return dict(sorted(whole.items(), key=lambda item: parse_version(item[1])))
    return whole


def _holds(version: str) -> Callable[[str], bool]:
    """Return whether ``1.0`` or ``1.0 to 1.2`` has a release."""

    def holds(part: str) -> bool:
        first, _, last = part.partition(" to ")
        return parse_version(first) <= parse_version(version) <= parse_version(last or first)

    return holds


def code(digests: Digests) -> str:
    """Return the text of ``known.py``: the one that is there with other data."""
    short = {
        package: {
            module: {
                name: {each[:DIGITS]: text for each, text in read.items()}
                for name, read in names.items()
            }
            for module, names in modules.items()
        }
        for package, modules in digests.items()
    }
    head = KNOWN.read_text(encoding="utf-8").partition(_BEFORE)[0]
    return f"{head}{_BEFORE}{json.dumps(short, indent=1)}\n"
