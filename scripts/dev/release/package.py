"""The chart's package, of equal bytes for equal sources: `make package`."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from scripts import archive
from scripts.helm import ROOT, find_helm
from scripts.problem import Problem

EPOCH = 315532800
"""Time of the files, 1980-01-01, as in the wheel: Helm 3 would write the clock, Helm 4 the time of
the checkout."""


def repacked(package: bytes) -> bytes:
    """Return a package of Helm with sorted files and without times and owners.

    The compressed bytes also depend on the release of zlib.
    """
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as old,
        tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mode, entry.mtime = member.size, 0o644, EPOCH
            new.addfile(entry, old.extractfile(member))
    return gzip.compress(made.getvalue(), 9, mtime=0)


def build(folder: Path, root: Path = ROOT) -> Path:
    """Write the package of a checkout's chart into a folder; return its path.

    Raises:
        Problem: Helm cannot package the chart.
    """
    archive.build(root)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(find_helm()), "package", str(root / "chart"), "--destination", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Problem(f"helm package: {done.stderr.strip()}")
        [package] = Path(scratch).glob("*.tgz")
        made = folder / package.name
        made.write_bytes(repacked(package.read_bytes()))
    return made


if __name__ == "__main__":
    try:
        print(build(ROOT / "dist"))
    except Problem as problem:
        sys.exit(f"error: {problem}")
