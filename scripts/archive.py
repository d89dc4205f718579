"""The chart's archive of the launcher: ``python3 -m scripts.archive``, with any Python >= 3.11.

``chart/launchers.tar.xz`` holds each Python file of ``launchers/``, ``chart/launchers.digest`` the
SHA-256 of their names and contents (``launchers/version.py``). Equal sources give equal archives:
names are sorted, times and owners zero, and the compression has fixed parameters.
"""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from launchers.version import digest, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "launchers.tar.xz"
DIGEST = "launchers.digest"
FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": 1 << 22,
        "lc": 4,
        "lp": 0,
        "pb": 0,
    }
]
"""Parameters for text: no alignment (lp, pb), the whole last byte's upper half as context (lc)."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the archive: each file as ``launchers/<name>``.

    Args:
        files: relative path to content.
    """
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"launchers/{name}")
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(tar.getvalue(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=FILTERS)


def build(root: Path = ROOT) -> bool:
    """Write archive and digest of a checkout, unless they are up to date.

    Returns:
        Whether they were written.

    Raises:
        OSError: the chart's folder is not writable.
    """
    chart = root / "chart"
    files = sources(root / "launchers")
    wanted = f"{digest(files)}\n"
    if _is_current(chart, wanted):
        return False
    _replace(chart / ARCHIVE, pack(files))
    _replace(chart / DIGEST, wanted.encode("ascii"))  # last: it says that the archive is complete
    return True


def _is_current(chart: Path, wanted: str) -> bool:
    archive, seal = chart / ARCHIVE, chart / DIGEST
    if not archive.is_file() or not seal.is_file() or seal.read_text(encoding="ascii") != wanted:
        return False
    # a later version of this program may pack otherwise
    return archive.stat().st_mtime >= Path(__file__).stat().st_mtime


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically, by way of the folder above: Helm may be reading the chart's."""
    handle, name = tempfile.mkstemp(dir=path.parent.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    if build():
        print(f"chart/{ARCHIVE}: {(ROOT / 'chart' / ARCHIVE).stat().st_size:,} bytes")
