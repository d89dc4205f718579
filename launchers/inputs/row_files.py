"""The rows of a dataset as ms-swift's reader yields them, read in part where there are many.

A file is read by its suffix (``swift/dataset/loader.py: _load_dataset_path``), a folder as
``datasets`` chooses its files (``datasets/data_files.py: get_data_patterns``, 4.8.4). Parquet and
Arrow need pyarrow; without it their rows are ``unread``, which is not the same as good.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from launchers.exits import LaunchError
from launchers.inputs import row_folder
from launchers.inputs.model_weights import POINTER
from launchers.inputs.row_folder import refusal
from launchers.inputs.rows import columnar, json_text, shapes

MAX_READ_BYTES = 64 * 1024**2
"""Beginnings of the files of a dataset that are read, together: about a second."""
WINDOWS, WINDOW_BYTES = 16, 1024**2
"""Parts of the rest that are read of a single file; the last one ends with the file."""
DISTINCT_ROWS = 200
"""First JSON lines whose maps are looked at for keys that are there twice, which takes time."""
BLOCK_BYTES = 10 * 1024**2
"""``datasets`` takes the columns from the first block of JSON lines
(``packaged_modules/json/json.py``: ``chunksize``, 4.8.4); a later block must fit them."""
SUFFIXES = {"jsonl": "json", "json": "json", "csv": "csv", "txt": "text", "text": "text"}
SUFFIXES |= {"parquet": "parquet", "arrow": "arrow"}
"""Suffix of a file to its reader: the name of a builder of ``datasets``, or of two that ms-swift
renames. Any other name is looked for on a hub."""
_PACKED: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZ": bz2.open,
    b"\xfd7": lzma.open,
    b"PK": lambda path, mode: zipfile.Path(path, row_folder.members(path)[0]).open(mode),
}
"""First bytes of compressed files that ``datasets`` reads whatever their suffix."""
_LINES = (".jsonl", ".json")
_TYPED = (".parquet", *_LINES)
"""Files whose first one decides about the columns of a folder's."""
_SWITCHES = frozenset({"True", "TRUE", "true", "False", "FALSE", "false"})
"""Texts that pandas reads as switches."""
_NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf)", re.IGNORECASE)
CSV_LIMIT = 2**31 - 1
"""A field may hold a whole conversation."""
_NULL: Mapping[str, Any] = {}
"""The row that ``datasets`` makes of null: a null in each column."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one file."""

    path: Path
    rows: Sequence[tuple[int | None, Mapping[str, Any]]] = ()
    """Each with its number from 1; None where the rows before it were not counted."""
    total: int | None = None
    """Rows of the file, where all were read or the file says so."""
    unread: str = ""
    """Why no row was read."""

    def count(self) -> int | None:
        """Return the rows of the file, of JSON lines by counting them; None if they are unknown."""
        if self.total is None and self.path.suffix == ".jsonl":
            with self.path.open("rb") as handle:
                found = sum(1 for line in handle if line.strip())
            return found if found >= len(self.rows) else None  # lines that CR ends
        return self.total

    @property
    def is_whole(self) -> bool:
        """Return whether every row was read."""
        return self.total == len(self.rows)

    @property
    def columns(self) -> list[str]:
        """Return the columns of the rows, in their order."""
        return list(dict.fromkeys(name for _, row in self.rows for name in row))


def read(key: str, path: Path, limit: int | None = None) -> list[Rows]:
    """Read a file, or the files of a folder's split ``train``.

    Args:
        key: its key in the values, for messages.
        path: the file or folder, which exists.
        limit: bytes of a file of which every row is read; default: ``MAX_READ_BYTES``.

    Raises:
        LaunchError: DATA when ms-swift could not read it, naming the file and the line.
    """
    most = MAX_READ_BYTES if limit is None else limit
    if re.search(r"::|\[.+\]", str(path)):
        wrong = "has :: or [...] in its path, which datasets takes for a pattern"
        raise refusal("dataset-path", key, path, wrong, "rename it")
    if path.is_dir():
        files = row_folder.train_files(key, path, SUFFIXES)
        if isinstance(files, str):
            return [Rows(path=path, unread=files)]
        if files[0][1] == "json" and not files[0][0].stat().st_size:
            wrong = f"begins with {files[0][0].name}, which is empty: datasets reads its columns"
            raise refusal("dataset-empty", key, path, wrong, "remove that file")
        files = [f for f in files if f[1] != "json" or f[0].stat().st_size]
        part = max(most // len(files), min(most, WINDOW_BYTES))
        found = [_file(key, file, kind, part, len(files)) for file, kind in files]
        _refuse_other_columns(key, path, found)
        totals = [each.total for each in found]
        rows = None if None in totals else sum(n for n in totals if n is not None)
        row_folder.refuse_info(key, path, {n for each in found for n in each.columns}, rows)
        return found
    kind = SUFFIXES.get(path.suffix[1:], "")
    if not kind:
        raise refusal(
            "dataset-suffix",
            key,
            path,
            f"has a suffix that ms-swift does not read: {path.suffix or '(none)'}",
            f"use .{', .'.join(SUFFIXES)}; unpack a compressed file first",
        )
    return [_file(key, path, kind, most)]


def _file(key: str, path: Path, kind: str, most: int, files: int = 1) -> Rows:
    if path.stat().st_size == 0:
        raise refusal("dataset-empty", key, path, "is empty", "use a file with rows")
    _refuse_stand_in(key, path)
    if kind in ("parquet", "arrow"):
        count = columnar.read(key, path, kind, most, files)
        found = (
            Rows(path=path, unread=count)
            if isinstance(count, str)
            else Rows(path=path, rows=count[0], total=count[1])
        )
    else:
        try:
            with _opened(path) as handle:
                found = (
                    _json(key, path, handle, most, max(1, WINDOWS // files))
                    if kind == "json"
                    else (_text if kind == "text" else _csv)(key, path, handle, most)
                )
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError) as error:
            if getattr(error, "errno", None):  # of the storage
                raise
            wrong = f"is a compressed file that is cut or damaged: {error}"
            raise refusal("dataset-compressed", key, path, wrong, "copy it again") from None
    if found.total == 0 and not found.rows:
        raise refusal("dataset-no-rows", key, path, "has no rows", "use a file with rows")
    return found


def _refuse_stand_in(key: str, path: Path) -> None:
    """Refuse what a checkout or a download has left in place of the file."""
    with path.open("rb") as handle:
        begin = handle.read(200)
    if begin.startswith(POINTER):
        wrong, remedy = (
            "is a git-lfs pointer, not the file itself",
            "run git lfs pull in its folder",
        )
        raise refusal("dataset-lfs-pointer", key, path, wrong, remedy)
    if begin.startswith(b"\x28\xb5\x2f\xfd"):
        remedy = "unpack it (zstd -d)"
        raise refusal("dataset-compressed", key, path, "is compressed (zstd)", remedy)
    if begin.startswith(b"PK\x03\x04") and len(held := row_folder.members(path)) != 1:
        wrong = f"is a zip file of {len(held)} files that can be read"
        raise refusal("dataset-compressed", key, path, wrong, "unpack it (unzip)")
    if re.match(rb"\s*<(!doctype\s+html|html)", begin, re.IGNORECASE):
        wrong, remedy = "is a web page, not rows", "download the file itself (.../resolve/main/...)"
        raise refusal("dataset-web-page", key, path, wrong, remedy)


def _opened(path: Path) -> Any:
    with path.open("rb") as handle:
        unpack = _PACKED.get(handle.read(2))
    return unpack(path, "rb") if unpack else path.open("rb")


def _json(key: str, path: Path, handle: BinaryIO, most: int, windows: int) -> Rows:
    """Read JSON lines, or one JSON list."""
    head = handle.read(most)
    rest = handle.read(1)
    if head.startswith(b"["):
        return _json_list(key, path, head, is_whole=not rest)
    if re.match(rb"(?:\xef\xbb\xbf)?\s*\[", head):
        wrong = "has a byte-order mark or a space before its list, where datasets reads no rows"
        remedy = f"write one map per line: jq -c '.[]' {path.name} > rows.jsonl"
        raise refusal("dataset-json", key, path, wrong, remedy)
    if not rest and _wrapped(head):
        raise refusal(
            "dataset-wrapped",
            key,
            path,
            f"is one map, with its rows under {_wrapped(head)}",
            f"write the rows alone: jq -c '.{_wrapped(head)}[]'",
        )
    lines = head.splitlines()
    kept = lines[:-1] if rest else lines  # the last one is incomplete
    block = head[: head.find(b"\n", BLOCK_BYTES) + 1 or len(head)]
    first = sum(map(bool, map(bytes.strip, block.splitlines())))
    numbered = ((n, line) for n, line in enumerate(kept, 1) if line.strip())
    try:
        rows: Sequence[Mapping[str, Any]] = [
            _map(key, path, f"line {n}", _parse(key, path, line, n)) for n, line in numbered
        ]
    except LaunchError:
        spread = None if rest else json_text.read(head, BLOCK_BYTES)
        if spread is None:
            raise
        rows, first = spread
    found: list[tuple[int | None, Mapping[str, Any]]] = [*enumerate(rows, 1)]
    _refuse_null(key, path, rows)
    if rest:
        found += [(None, row) for row in _windows(key, path, len(head), windows)]
    if len(head) > len(block):
        shapes.refuse_late(key, path, found, first)
    return Rows(path=path, rows=found, total=None if rest else len(found))


def _json_list(key: str, path: Path, head: bytes, *, is_whole: bool) -> Rows:
    if is_whole:
        rows = [_map(key, path, "line 1", row) for row in _parse(key, path, head, 1)]
        _refuse_null(key, path, rows)
        return Rows(path=path, rows=[*enumerate(rows, 1)], total=len(rows))
    text, decoder, found = head.decode("utf-8", "ignore"), json.JSONDecoder(), []
    at = text.index("[") + 1
    try:
        while True:
            value, at = decoder.raw_decode(text, re.compile(r"[\s,]*").match(text, at).end())  # type: ignore[union-attr]
            found.append(value)
    except ValueError:  # where the part that was read ends
        pass
    return Rows(path=path, rows=[*enumerate((_map(key, path, "the list", e) for e in found), 1)])


def _windows(key: str, path: Path, begin: int, count: int) -> Iterator[Mapping[str, Any]]:
    """Yield rows of parts of the file behind its beginning; not of a compressed one."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        if handle.read(2) in _PACKED:
            return
        step = max(1, (size - begin) // count)
        for end in [*range(begin + step, size, step)][: count - 1] + [size]:
            handle.seek(max(begin, end - min(step, WINDOW_BYTES)))
            start, text = handle.tell(), handle.read(min(step, WINDOW_BYTES))
            lines = text.splitlines()[1:]
            for line in lines if end == size else lines[:-1]:
                if line.strip():
                    place = f"a line behind byte {start}"
                    yield _map(key, path, place, _parse(key, path, line, 0, place))


def _wrapped(head: bytes) -> str:
    """Return the key of a map of one JSON document under which rows stand; empty otherwise."""
    if head.count(b"\n") > 10_000 or head.lstrip()[:1] != b"{":
        return ""
    try:
        document = json.loads(head.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return ""
    if any(name in document for name in ("messages", "chosen", "rejected", "conversations")):
        return ""
    lists = [k for k, v in document.items() if isinstance(v, list) and v and isinstance(v[0], dict)]
    return lists[0] if len(lists) == 1 else ""


def _refuse_null(key: str, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a null before the first map, where Arrow ends the process with SIGSEGV."""
    if rows and rows[0] is _NULL:
        wrong, remedy = "begins with a row that is null", "remove rows that are null"
        raise refusal("dataset-row", key, path, wrong, remedy)


def _map(key: str, path: Path, place: str, row: Any) -> Mapping[str, Any]:
    if row is None:
        return _NULL
    if isinstance(row, Mapping):
        return row
    wrong = f"{place}: the row is not a map"
    raise refusal("dataset-row", key, path, wrong, "use one map per line")


def _parse(key: str, path: Path, text: bytes, number: int, place: str = "") -> Any:
    try:
        hook = json_text.once if 0 < number <= DISTINCT_ROWS else None
        value = json.loads(
            text.decode("utf-8-sig" if number == 1 else "utf-8"),
            object_pairs_hook=hook,
            parse_float=json_text.double,
        )
        if b"\\ud" in text.lower():  # half a surrogate pair, which Arrow does not take for text
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or thousands of levels
        where = place or f"line {number}"
        if row_folder.is_spread(path, text):
            wrong = f"{where} is not one JSON map, and datasets cannot read a file of this size so"
            remedy = f"write one map per line: jq -c . {path.name} > rows.jsonl"
            raise refusal("dataset-json-lines", key, path, wrong, remedy) from None
        wrong, remedy = f"{where} is not JSON: {error}", "use one JSON map per line, in UTF-8"
        raise refusal("dataset-json", key, path, wrong, remedy) from None


def _text(key: str, path: Path, handle: BinaryIO, most: int) -> Rows:
    lines = handle.read(most).decode("utf-8", "replace").splitlines()
    found = [(n, {"text": line}) for n, line in enumerate(lines, 1)]
    return Rows(path=path, rows=found, total=None if handle.read(1) else len(found))


def _csv(key: str, path: Path, handle: BinaryIO, most: int) -> Rows:
    """Read a csv, or a tsv of a folder; columns of numbers or switches are such, as in pandas."""
    csv.field_size_limit(CSV_LIMIT)
    head = handle.read(most)
    is_whole = not handle.read(1)
    try:
        text = (head if is_whole else head[: head.rindex(b"\n")]).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal("dataset-csv", key, path, f"is not in UTF-8: {error}", "use UTF-8") from None
    between = "\t" if ".tsv" in path.suffixes else ","
    file = io.StringIO(text, newline="")
    names = _names(next(csv.reader(file, delimiter=between), []))
    if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
        wrong = f"has the separator {other[0]!r} in its first line"
        raise refusal("dataset-csv", key, path, wrong, "write it with commas, or as JSON lines")
    rows: list[dict[str, Any]] = [*csv.DictReader(file, names, delimiter=between)]
    if wide := next((n for n, row in enumerate(rows, 1) if row.keys() & {None}), 0):
        wrong = f"row {wide} has more fields than the first line has names"
        raise refusal("dataset-csv", key, path, wrong, "quote texts that hold the separator")
    for name in rows[0] if rows else ():
        column = [row[name] for row in rows]
        read: Callable[[str], object] | None = None
        if all(map(_is_number, column)):
            read = float
        elif {*column} <= _SWITCHES:
            read = "TRUE".__eq__
        for row in rows if read else ():
            row[name] = read(row[name].upper()) if read else None
    return Rows(path=path, rows=[*enumerate(rows, 1)], total=len(rows) if is_whole else None)


def _names(header: Sequence[str]) -> list[str]:
    """Return the names that pandas gives to columns without one, and to those that repeat."""
    found: list[str] = []
    for n, name in enumerate(header):
        name = name or f"Unnamed: {n}"
        found.append(f"{name}.{found.count(name)}" if name in found else name)
    return found


def _is_number(text: object) -> bool:
    return isinstance(text, str) and bool(_NUMBER.fullmatch(text.strip()))


def _refuse_other_columns(key: str, folder: Path, found: Sequence[Rows]) -> None:
    """Refuse files of one split with other columns (``datasets``: DatasetGenerationCastError)."""
    first = found[0]
    if first.path.suffix in _LINES and first.is_whole and first.path.stat().st_size < BLOCK_BYTES:
        for each in found[1:]:
            rows = [*first.rows, *each.rows]
            shapes.refuse_late(key, each.path, rows, len(first.rows))
    known = [each for each in found if each.rows and each.path.suffix in _TYPED]
    for each in known[1:]:
        differ = {*each.columns} - {*known[0].columns}
        if differ:
            raise refusal(
                "dataset-columns-differ",
                key,
                folder,
                f"has files of other columns: {', '.join(sorted(differ))}",
                f"give {known[0].path.name} and {each.path.name} the same columns, or name each "
                "file in recipe.dataset",
            )
