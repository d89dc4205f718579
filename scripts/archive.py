"""The chart's archive of the launcher: ``python3 -m scripts.archive``, with any Python >= 3.11.

``chart/launchers.tar.bz2`` holds the code of each Python file of ``launchers/`` (``code_of``),
``chart/launchers.digest`` the SHA-256 of the names and contents of the files as they are in the
checkout (``launchers/version.py``). Equal sources give equal archives: names are sorted, times and
owners zero.

``chart/defaults.yaml`` holds the defaults of ``values.yaml``, which no template can read itself: a
null in a values file means the default.

The archive is small because a ConfigMap larger than 262,144 bytes fails with client-side ``kubectl
apply``, and Helm stores it twice in the record of each release.
"""

from __future__ import annotations

import ast
import bz2
import io
import os
import re
import tarfile
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from launchers.version import digest, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "launchers.tar.bz2"
DIGEST = "launchers.digest"
DEFAULTS = "defaults.yaml"


def code_of(source: bytes) -> bytes:
    r"""Return a module's code as the pod gets it, on the same lines, so that tracebacks agree.

    Left out are comments, docstrings (an empty string each: one may be the only statement of a
    body), annotations of parameters and results, and three of four spaces of indentation.

    >>> code_of(b"def f(a: int) -> int:  # why\n    'Do it.'\n    return a\n")
    b'def f(a):\n ""\n return a\n'
    """
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source.decode()).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            kept = lines[row - 1].decode()[:column].rstrip()
            lines[row - 1] = f"{kept}\n".encode()
    tree = ast.parse(source)
    for (row, column), (last, end), new in sorted(_cuts(tree), reverse=True):
        tail = lines[last - 1][end:]
        lines[row - 1 : last] = [
            lines[row - 1][:column] + new + (b"\n" if last > row else tail),
            *[b"\n"] * (last - row - 1),
            *([tail] if last > row else []),
        ]
    quoted = _quoted(tree)
    return b"".join(
        line if number in quoted else _dedented(line) for number, line in enumerate(lines, start=1)
    )


Position = tuple[int, int]
"""Line from 1, and byte in it."""


def _cuts(tree: ast.Module) -> Iterator[tuple[Position, Position, bytes]]:
    """Yield begin, end and replacement of docstrings and annotations."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield (*_span(text), b'""')
            case ast.arg(annotation=ast.expr() as annotation):
                begin = node.lineno, node.col_offset + len(node.arg.encode())
                yield begin, _span(annotation)[1], b""
            case ast.FunctionDef(returns=ast.expr() as result):
                begin, end = _span(result)
                yield (begin[0], begin[1] - len(" -> ")), end, b""


def _span(node: ast.expr) -> tuple[Position, Position]:
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return (node.lineno, node.col_offset), end


def _quoted(tree: ast.Module) -> set[int]:
    """Return the lines that begin inside a string, whose indentation is data."""
    strings = (n for n in ast.walk(tree) if isinstance(n, ast.Constant | ast.JoinedStr))
    return {line for n in strings for line in range(n.lineno + 1, (n.end_lineno or n.lineno) + 1)}


def _dedented(line: bytes) -> bytes:
    """Return a line with a quarter of its indentation, which is a multiple of four in a block."""
    code = line.lstrip(b" ")
    blocks, rest = divmod(len(line) - len(code), 4)
    return b" " * (blocks + rest) + code


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
    return bz2.compress(tar.getvalue())  # of much alike text 5 % smaller than xz


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
