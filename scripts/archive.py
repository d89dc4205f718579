"""The chart's archive of the launcher: ``python3 -m scripts.archive``, with any Python >= 3.11.

In ``chart/charts/launcher-archive/``, ``launchers.tar.bz2`` and ``training.tar.bz2`` hold the code
of each Python file of ``launchers/`` and its data (``stored``); ``chart/launchers.digest`` is the
SHA-256 of names and contents of the files as they are in the checkout (``launchers/version.py``).
Equal sources give equal archives: names are sorted, owners zero, and the time follows from the
contents.

``chart/defaults.yaml`` holds the defaults of ``values.yaml``, which no template can read itself: a
null in a values file means the default. It is in Git, so that the chart renders from a clone with
``launcher.from: image``.

There are two because a ConfigMap larger than 262,144 bytes fails with client-side ``kubectl
apply``. They are in a subchart because Helm stores a chart's files in the record of each release,
which may take 1 MiB, but not those of subcharts.
"""

import ast
import bz2
import io
import os
import re
import tarfile
import tempfile
import tokenize
import zlib
from collections.abc import Mapping
from pathlib import Path

from launchers.version import digest, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHIVES = ("launchers.tar.bz2", "training.tar.bz2")
"""Their keys in the ConfigMaps: the second holds the packages ``SECOND``, the first the rest."""
SECOND = (
    "evaluation/", "gang/", "hang/", "plan/", "proof/", "reference/", "rehearsal/", "rules/",
    "standby/", "stop/", "training/", "upstream/",
)  # fmt: skip
PLACES = tuple(f"charts/launcher-archive/{name}" for name in ARCHIVES)
"""Their paths in the chart."""
DIGEST = "launchers.digest"
DEFAULTS = "defaults.yaml"


def stored(name: str, source: bytes) -> bytes:
    r"""Return a module or YAML without comments and docstrings, on the same lines; JSON as it is.

    Tracebacks agree with the checkout. A docstring becomes an empty string, since it may be the
    only statement of a body.

    >>> stored("a.py", b"def f(a: int) -> int:  # why\n    'Do it.'\n    return a\n")
    b'def f(a: int) -> int:\n    ""\n    return a\n'
    """
    if name.endswith(".yaml"):
        return re.sub(rb"(^| +)#.*$", b"", source, flags=re.MULTILINE)
    if not name.endswith(".py"):
        return source
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source.decode()).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1].decode()[:column].rstrip().encode() + b"\n"
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                first, last = text.lineno, text.end_lineno or text.lineno
                begin, rest = lines[first - 1][: text.col_offset], lines[last - 1]
                kept = begin + b'""' + rest[text.end_col_offset :]
                lines[first - 1 : last] = [kept, *[b"\n"] * (last - first)]
    return b"".join(lines)


def defaults(values: str) -> str:
    r"""Return the text of values.yaml without comments, and without keys whose null has a meaning.

    >>> defaults("a:\n  # -- Size.\n  b: 1\n  # -- Time to live; null never ends.\n  c: 7\n")
    'a:\n  b: 1\n'
    >>> defaults("a:\n  # -- Size; null for any.\n  b: null\nc: 1\n")
    'c: 1\n'
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
    below = [*kept[1:], ""]
    return "".join(line for line, after in zip(kept, below, strict=True) if _holds(line, after))


def _holds(line: str, after: str) -> bool:
    """Return whether a line of YAML has a value, in it or below it."""
    depth, deeper = (len(each) - len(each.lstrip(" ")) for each in (line, after))
    return not line.endswith(":\n") or deeper > depth or after.lstrip().startswith("- ")


def archives(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the content of each archive by its name.

    ``files``: relative path in ``launchers/`` to content.
    """
    parts: dict[str, dict[str, bytes]] = {name: {} for name in ARCHIVES}
    for name, source in files.items():
        parts[ARCHIVES[name.startswith(SECOND)]][name] = source
    return {name: pack(part) for name, part in parts.items()}


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with each file as ``launchers/<name>``.

    Python takes a module's bytecode for its source's if size and time agree, so equal times would
    let bytecode on the workspace outlive a change of the source.

    ``files``: relative path to content.
    """
    code = {f"launchers/{name}": stored(name, source) for name, source in files.items()}
    return bz2.compress(tar(code, time_of(code)))  # of much alike text 5 % smaller than xz


def time_of(files: Mapping[str, bytes]) -> int:
    """Return a time for files that their contents give: below 2**31, which some systems end at."""
    return zlib.crc32(b"\0".join(files.values())) >> 2


def tar(files: Mapping[str, bytes], time: int) -> bytes:
    """Return a tar archive of equal bytes for equal files: sorted, without owners, mode 0644.

    ``files``: name to content; ``time`` of all, in seconds.
    """
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, time
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def build(root: Path = ROOT) -> bool:
    """Write archives, digest and defaults of a checkout, unless they are up to date.

    Returns:
        Whether they were written.

    Raises:
        OSError: the chart's folder is not writable.
    """
    chart = root / "chart"
    files = sources(root / "launchers")
    wanted = f"{digest(files)}\n"
    text = defaults((chart / "values.yaml").read_text(encoding="utf-8"))
    file = chart / DEFAULTS
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        _replace(chart, DEFAULTS, text.encode())
    if _is_current(chart, wanted):
        return False
    for place, content in zip(PLACES, archives(files).values(), strict=True):
        _replace(chart, place, content)
    _replace(chart, DIGEST, wanted.encode("ascii"))  # last: it says that the archives are complete
    return True


def _is_current(chart: Path, wanted: str) -> bool:
    made, seal = [chart / place for place in PLACES], chart / DIGEST
    if not all(file.is_file() for file in (*made, seal)) or seal.read_text("ascii") != wanted:
        return False
    # a later version of this program may pack otherwise
    own = Path(__file__).stat().st_mtime
    return all(archive.stat().st_mtime >= own for archive in made)


def _replace(chart: Path, place: str, content: bytes) -> None:
    """Write a file of the chart atomically, by way of the folder above: Helm may be reading it."""
    path = chart / place
    handle, name = tempfile.mkstemp(dir=chart.parent, prefix=f".{path.name}.")
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
        for each in PLACES:
            print(f"chart/{each}: {(ROOT / 'chart' / each).stat().st_size:,} bytes")
