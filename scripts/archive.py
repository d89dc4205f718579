"""The chart's archive of the launcher: ``python3 -m scripts.archive``, with any Python >= 3.11.

In ``chart/``, ``charts/launcher-archive/launchers.tar.bz2`` holds the code of each Python file of
``launchers/`` (``code_of``), ``launchers.digest`` the SHA-256 of names and contents of the files as
they are in the checkout (``launchers/version.py``). Equal sources give equal archives: names are
sorted, times and owners zero.

``chart/defaults.yaml`` holds the defaults of ``values.yaml``, which no template can read itself: a
null in a values file means the default. ``chart/keys.json`` holds the keys of each map in which the
schema lets unknown ones pass, so that a template refuses them and names the nearest;
``chart/schema.json`` holds the rules of ``values.schema.json``, which templates apply. These three
are in Git, so that the chart renders from a clone with ``launcher.from: image``.

The archive is small because a ConfigMap larger than 262,144 bytes fails with client-side ``kubectl
apply``. It lies in a subchart because Helm stores a chart's files in the record of each release,
which may take 1 MiB, but not those of subcharts.
"""

from __future__ import annotations

import ast
import bz2
import io
import json
import os
import re
import tarfile
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launchers.version import digest, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "launchers.tar.bz2"
"""Its key in the ConfigMap."""
PLACE = f"charts/launcher-archive/{ARCHIVE}"
"""Its path in the chart."""
DIGEST = "launchers.digest"
DEFAULTS = "defaults.yaml"
KEYS = "keys.json"
SCHEMA = "schema.json"
_OPEN = {"$ref": "#/definitions/unknown"}
"""Of the schema: the map takes unknown keys."""


def code_of(source: bytes) -> bytes:
    r"""Return a module's code as the pod gets it, on the same lines, so that tracebacks agree.

    Left out are comments, docstrings (an empty string each: one may be the only statement of a
    body), annotations, three of four spaces of indentation, and all of it within brackets.

    >>> code_of(b"def f(a: int) -> int:  # why\n    'Do it.'\n    return a\n")
    b'def f(a):\n ""\n return a\n'
    >>> code_of(b"class A:\n    b: int = max(\n        1, 2)\n    c: int\n")
    b'class A:\n b:0 = max(\n1, 2)\n c:0\n'
    """
    lines = source.splitlines(keepends=True)
    within, depth = set(), 0
    for token in tokenize.generate_tokens(io.StringIO(source.decode()).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            kept = lines[row - 1].decode()[:column].rstrip()
            lines[row - 1] = f"{kept}\n".encode()
        elif token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        elif token.type == tokenize.NL and depth:
            within.add(token.end[0] + 1)
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
        line if n in quoted else line.lstrip(b" ") if n in within else _dedented(line)
        for n, line in enumerate(lines, start=1)
    )


Position = tuple[int, int]
"""Line from 1, and byte in it."""


def _cuts(tree: ast.Module) -> Iterator[tuple[Position, Position, bytes]]:
    """Yield begin, end and replacement of docstrings and annotations.

    The fields of a class keep one, 0, by which dataclasses know them.
    """
    fields = {n for each in ast.walk(tree) if isinstance(each, ast.ClassDef) for n in each.body}
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
            case ast.AnnAssign(target=target, annotation=annotation) if node in fields:
                if not ast.unparse(annotation).startswith(_READ):
                    yield _span(target)[1], _span(annotation)[1], b":0"
            case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr()):
                yield _span(target)[1], _span(annotation)[1], b""


_READ = ("ClassVar", "InitVar", "KW_ONLY")
"""Annotations that dataclasses read."""


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


def keys(schema: Mapping[str, Any], path: str = "") -> dict[str, list[str]]:
    """Return the path of each map in which the schema lets unknown keys pass, with its own keys.

    >>> below = {"additionalProperties": _OPEN, "properties": {"b": {}}}
    >>> keys({"additionalProperties": _OPEN, "properties": {"a": below, "c": {}}})
    {'': ['a', 'c'], 'a': ['b']}
    """
    properties = schema.get("properties", {})
    found = {path: list(properties)} if schema.get("additionalProperties") == _OPEN else {}
    for name, below in properties.items():
        found |= keys(below, f"{path}.{name}".lstrip("."))
    return found


_ANNOTATIONS = (
    "$comment",
    "$schema",
    "default",
    "deprecationMessage",
    "description",
    "doNotSuggest",
)
_NAMED = ("definitions", "dependencies", "properties")
"""Keywords of JSON schema whose keys are names."""


def rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as templates apply it: definitions by their pointer, the whole as ``""``.

    Types are lists, ``$ref`` is ``ref``, and what judges nothing is left out.

    >>> rules({"properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}})
    {'': {'properties': {'a': {'ref': 'definitions/b'}}}, 'definitions/b': {}}
    """
    found: dict[str, Any] = {}
    waiting = [""]
    while waiting:
        pointer = waiting.pop()
        if pointer not in found:
            node: Any = schema
            for name in pointer.split("/") if pointer else ():
                node = node[name]
            found[pointer] = _judging(node, waiting)
    return found


def _judging(node: Any, refs: list[str]) -> Any:
    """Return a part of the schema without annotations; add what it refers to to ``refs``."""
    if isinstance(node, list):
        return [_judging(item, refs) for item in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:  # of draft-07: other keys do not count
        refs.append(str(node["$ref"]).removeprefix("#/"))
        return {"ref": refs[-1]}
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in _ANNOTATIONS or key == "definitions" or value == _OPEN:
            continue
        if key == "type":
            made[key] = [value] if isinstance(value, str) else value
        elif key in _NAMED:
            made[key] = {name: _judging(below, refs) for name, below in value.items()}
        else:
            made[key] = value if key in ("const", "enum") else _judging(value, refs)
    return made


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
    """Write archive, digest, defaults, keys and schema of a checkout, unless they are up to date.

    Returns:
        Whether they were written.

    Raises:
        OSError: the chart's folder is not writable.
    """
    chart = root / "chart"
    files = sources(root / "launchers")
    wanted = f"{digest(files)}\n"
    values = (chart / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    for name, text in generated(values, schema).items():
        _write(chart, name, text)
    if _is_current(chart, wanted):
        return False
    _replace(chart, PLACE, pack(files))
    _replace(chart, DIGEST, wanted.encode("ascii"))  # last: it says that the archive is complete
    return True


def generated(values: str, schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the generated files that are in Git, by name, from the texts that they follow."""
    return {DEFAULTS: defaults(values), KEYS: _lines(keys(schema)), SCHEMA: _lines(rules(schema))}


def _lines(document: Mapping[str, Any]) -> str:
    """Return JSON of one value per line, so that Git shows and merges changes."""
    return json.dumps(document, indent=0, separators=(",", ":"), sort_keys=True) + "\n"


def _write(chart: Path, name: str, text: str) -> None:
    file = chart / name
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        _replace(chart, name, text.encode())


def _is_current(chart: Path, wanted: str) -> bool:
    archive, seal = chart / PLACE, chart / DIGEST
    if not archive.is_file() or not seal.is_file() or seal.read_text(encoding="ascii") != wanted:
        return False
    # a later version of this program may pack otherwise
    return archive.stat().st_mtime >= Path(__file__).stat().st_mtime


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
        print(f"chart/{PLACE}: {(ROOT / 'chart' / PLACE).stat().st_size:,} bytes")
