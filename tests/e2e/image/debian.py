"""The image without a container engine: a minimal Debian of this machine's release.

The build runs in its own namespaces on a tmpfs: nothing stays mounted after it ends or fails.
"""

import re
from pathlib import Path

from scripts.problem import Problem

PACKAGES = ("ca-certificates", "git", "python3", "python3-yaml")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private")
SCRIPT = f"""\
root=$1 suite=$2 mirror=$3 python=$4 layer=$5
mount -t tmpfs -o mode=755 tmpfs "$root"
debootstrap --variant=minbase --include={",".join(PACKAGES)} "$suite" "$root" "$mirror" >&2
found=$(readlink "$root/usr/bin/python3")
if [ "$found" != "$python" ]; then
  echo "$suite has $found, .tools/train $python; run \\`make clean setup PYTHON=$found\\`" >&2
  exit 1
fi
echo /opt/train >"$root/usr/lib/python3/dist-packages/train.pth"
cd "$root"
rm -rf usr/share/doc usr/share/locale usr/share/man var/cache/apt var/lib/apt/lists var/log/*
tar --create --numeric-owner --file "$layer" .
"""
"""Shell script that builds the image's only layer; arguments as in ``command``."""


def command(root: Path, suite: str, mirror: str, python: str, layer: Path) -> list[str]:
    """Return the command that writes ``layer``; ``root`` is an empty folder, ``python`` the name
    of the training environment's interpreter, such as python3.11."""
    words = (root, suite, mirror, python, layer)
    return [*NAMESPACES, "sh", "-euc", SCRIPT, "sh", *map(str, words)]


def distribution() -> tuple[str, str]:
    """Return the code name of this machine's release and its apt mirror."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    suite = re.search(r'^VERSION_CODENAME="?(\w+)', release, re.MULTILINE)
    for file in sorted(Path("/etc/apt").rglob("*")):
        if suite and file.suffix in (".list", ".sources"):
            found = mirror(file.read_text(encoding="utf-8"), suite[1])
            if found:
                return suite[1], found
    raise Problem("no Debian release with a mirror in /etc/apt; elsewhere the image needs docker")


def mirror(sources: str, suite: str) -> str | None:
    """Return the mirror with a release's main component from an apt sources file in either format.

    >>> mirror("deb [arch=amd64] http://example.org/debian bookworm main", "bookworm")
    'http://example.org/debian'
    >>> mirror("URIs: http://example.org/debian/\\nSuites: bookworm\\nComponents: main", "sid")
    """
    for line in re.findall(r"^deb +(?:\[.*?\] +)?(.+)$", sources, re.MULTILINE):
        address, found, *parts = line.split()
        if found == suite and "main" in parts:
            return str(address)
    for stanza in re.split(r"\n\s*\n", sources):
        fields = dict(re.findall(r"^([\w-]+): *(.*)$", stanza, re.MULTILINE))
        if suite in fields.get("Suites", "").split() and "main" in fields.get("Components", ""):
            return str(fields["URIs"].split()[0])
    return None
