"""The chart's archive of the launcher: ``python3 -m scripts.archive``, with any Python >= 3.11.

``chart/launchers.tar.xz`` holds each Python file of ``launchers/`` without comments and docstrings,
``chart/launchers.digest`` the SHA-256 of the names and contents of the files as they are in the
checkout (``launchers/version.py``). Equal sources give equal archives: names are sorted, times and
owners zero, and the compression has fixed parameters.

``chart/defaults.yaml`` holds the defaults of ``values.yaml``, which no template can read itself: a
null in a values file means the default.

Comments and docstrings are left out because a ConfigMap larger than 262,144 bytes fails with
client-side ``kubectl apply``, and Helm stores the archive twice in the record of each release.
"""

from __future__ import annotations

import ast
import io
import lzma
import os
import re
import tarfile
import tempfile
import tokenize
from collections.abc import Mapping
from pathlib import Path

from launchers.version import digest, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "launchers.tar.xz"
DIGEST = "launchers.digest"
DEFAULTS = "defaults.yaml"
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


def code_of(source: bytes) -> bytes:
    r"""Return a module's code without comments and docstrings, on the same lines.

    Tracebacks keep their line numbers. A docstring becomes an empty string, since it may be the
    only statement of a body.

    >>> code_of(b"def f():  # why\n    'Do it.'\n")
    b'def f():\n    ""\n'
    """
    text = source.decode()
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            lines[node.lineno - 1] = lines[node.lineno - 1][: node.col_offset] + '""\n'
            rest = (node.end_lineno or node.lineno) - node.lineno
            lines[node.lineno : node.lineno + rest] = ["\n"] * rest
    return "".join(lines).encode()


def defaults(values: str) -> str:
    r"""Return the text of values.yaml without comments, and without keys whose null has a meaning.

    >>> defaults("a:\n  # -- Size.\n  b: 1\n  # -- Time to live; null never ends.\n  c: 7\n")
    'a:\n  b: 1\n'
    """
    kept, comment = [], ""
    for line in values.splitlines():
        if line.lstrip().startswith("#"):
            comment = line
        elif line.strip():
            is_map = line.endswith((":", "{}", "[]"))
            if is_map or not re.search(r"\bnull\b", f"{comment}{line}"):
                kept.append(f"{line}\n")
            comment = ""
    return "".join(kept)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the archive: each file as ``launchers/<name>``.

    Args:
        files: relative path to content.
    """
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, source in sorted(files.items()):
            content = code_of(source)
            entry = tarfile.TarInfo(f"launchers/{name}")
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(tar.getvalue(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=FILTERS)


def build(root: Path = ROOT) -> bool:
    """Write archive, digest and defaults of a checkout, unless they are up to date.

    Returns:
        Whether they were written.

    Raises:
        OSError: the chart's folder is not writable.
    """
    chart = root / "chart"
    files = sources(root / "launchers")
    wanted = f"{digest(files)}\n"
    _write_defaults(chart)
    if _is_current(chart, wanted):
        return False
    _replace(chart / ARCHIVE, pack(files))
    _replace(chart / DIGEST, wanted.encode("ascii"))  # last: it says that the archive is complete
    return True


def _write_defaults(chart: Path) -> None:
    text = defaults((chart / "values.yaml").read_text(encoding="utf-8"))
    file = chart / DEFAULTS
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        _replace(file, text.encode())


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
