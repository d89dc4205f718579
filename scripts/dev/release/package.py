"""The chart's package, of equal bytes for equal sources: `make package`."""

import gzip
import io
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts import archive
from scripts.helm import ROOT, find_helm
from scripts.problem import Problem, output_of

IMAGE = "launchers.image"
"""File of a release's package with the digest of the launcher's image; templates read it."""
EPOCH = 315532800
"""Time of the files, 1980-01-01, as in the wheel: Helm 3 would write the clock, Helm 4 the time of
the checkout."""


def repacked(package: bytes, added: Mapping[str, bytes]) -> bytes:
    """Return a package of Helm with sorted files and without times and owners.

    The compressed bytes also depend on the release of zlib.
    """
    with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as old:
        files = {member.name: _content(old, member) for member in old.getmembers()}
    return gzip.compress(archive.tar({**files, **added}, EPOCH), 9, mtime=0)


def _content(package: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = package.extractfile(member)
    assert file is not None, f"{member.name} is not a file"
    return file.read()


def build(folder: Path, root: Path = ROOT, image: str = "") -> Path:
    """Write the package of a checkout's chart into a folder; return its path.

    ``image``: digest of the launcher's published image; empty for none.

    Raises:
        Problem: Helm cannot package the chart.
    """
    archive.build(root)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(find_helm()), "package", str(root / "chart"), "--destination", scratch]
        output_of(command, "helm package: ")
        [package] = Path(scratch).glob("*.tgz")
        made = folder / package.name
        added = {f"megatron-dpo/{IMAGE}": f"{image}\n".encode()} if image else {}
        made.write_bytes(repacked(package.read_bytes(), added))
    return made


if __name__ == "__main__":
    try:
        print(build(ROOT / "dist"))
    except Problem as problem:
        sys.exit(f"error: {problem}")
