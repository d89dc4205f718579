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
from launchers.inputs.row_folder import Place
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


def read(at: Place, limit: int | None = None) -> list[Rows]:
    """Read a file, or the files of a folder's split ``train``.

    Args:
        at: the file or folder, which exists.
        limit: bytes of a file of which every row is read; default: ``MAX_READ_BYTES``.

    Raises:
        LaunchError: DATA when ms-swift could not read it, naming the file and the line.
    """
    most = MAX_READ_BYTES if limit is None else limit
    if re.search(r"::|\[.+\]", str(at.path)):
        wrong = "has :: or [...] in its path, which datasets takes for a pattern"
        raise at.refusal("dataset-path", wrong, "rename it")
    if at.path.is_dir():
        files = row_folder.train_files(at, SUFFIXES)
        if isinstance(files, str):
            return [Rows(path=at.path, unread=files)]
        if files[0][1] == "json" and not files[0][0].stat().st_size:
            wrong = f"begins with {files[0][0].name}, which is empty: datasets reads its columns"
            raise at.refusal("dataset-empty", wrong, "remove that file")
        files = [f for f in files if f[1] != "json" or f[0].stat().st_size]
        part = max(most // len(files), min(most, WINDOW_BYTES))
        found = [_file(Place(at.key, file), kind, part, len(files)) for file, kind in files]
        _refuse_other_columns(at, found)
        totals = [each.total for each in found]
        rows = None if None in totals else sum(n for n in totals if n is not None)
        row_folder.refuse_info(at, {n for each in found for n in each.columns}, rows)
        return found
    kind = SUFFIXES.get(at.path.suffix[1:], "")
    if not kind:
        raise at.refusal(
            "dataset-suffix",
            f"has a suffix that ms-swift does not read: {at.path.suffix or '(none)'}",
            f"use .{', .'.join(SUFFIXES)}; unpack a compressed file first",
        )
    return [_file(at, kind, most)]


def _file(at: Place, kind: str, most: int, files: int = 1) -> Rows:
    if at.path.stat().st_size == 0:
        raise at.refusal("dataset-empty", "is empty", "use a file with rows")
    _refuse_stand_in(at)
    if kind in ("parquet", "arrow"):
        count = columnar.read(at, kind, most, files)
        found = (
            Rows(path=at.path, unread=count)
            if isinstance(count, str)
            else Rows(path=at.path, rows=count[0], total=count[1])
        )
    else:
        try:
            with _opened(at.path) as handle:
                found = (
                    _json(at, handle, most, max(1, WINDOWS // files))
                    if kind == "json"
                    else (_text if kind == "text" else _csv)(at, handle, most)
                )
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError) as error:
            if getattr(error, "errno", None):  # of the storage
                raise
            wrong = f"is a compressed file that is cut or damaged: {error}"
            raise at.refusal("dataset-compressed", wrong, "copy it again") from None
    if found.total == 0 and not found.rows:
        raise at.refusal("dataset-no-rows", "has no rows", "use a file with rows")
    return found


def _refuse_stand_in(at: Place) -> None:
    """Refuse what a checkout or a download has left in place of the file."""
    with at.path.open("rb") as handle:
        begin = handle.read(200)
    if begin.startswith(POINTER):
        wrong, remedy = (
            "is a git-lfs pointer, not the file itself",
            "run git lfs pull in its folder",
        )
        raise at.refusal("dataset-lfs-pointer", wrong, remedy)
    if begin.startswith(b"\x28\xb5\x2f\xfd"):
        remedy = "unpack it (zstd -d)"
        raise at.refusal("dataset-compressed", "is compressed (zstd)", remedy)
    if begin.startswith(b"PK\x03\x04") and len(held := row_folder.members(at.path)) != 1:
        wrong = f"is a zip file of {len(held)} files that can be read"
        raise at.refusal("dataset-compressed", wrong, "unpack it (unzip)")
    if re.match(rb"\s*<(!doctype\s+html|html)", begin, re.IGNORECASE):
        wrong, remedy = "is a web page, not rows", "download the file itself (.../resolve/main/...)"
        raise at.refusal("dataset-web-page", wrong, remedy)


def _opened(path: Path) -> Any:
    with path.open("rb") as handle:
        unpack = _PACKED.get(handle.read(2))
    return unpack(path, "rb") if unpack else path.open("rb")


def _json(at: Place, handle: BinaryIO, most: int, windows: int) -> Rows:
    """Read JSON lines, or one JSON list."""
    head = handle.read(most)
    rest = handle.read(1)
    if head.startswith(b"["):
        return _json_list(at, head, is_whole=not rest)
    if re.match(rb"(?:\xef\xbb\xbf)?\s*\[", head):
        wrong = "has a byte-order mark or a space before its list, where datasets reads no rows"
        remedy = f"write one map per line: jq -c '.[]' {at.path.name} > rows.jsonl"
        raise at.refusal("dataset-json", wrong, remedy)
    if not rest and (document := _document(head)):
        if name := _wrapped(document):
            wrong = f"is one map, with its rows under {name}"
            raise at.refusal("dataset-wrapped", wrong, f"write the rows alone: jq -c '.{name}[]'")
        if _is_by_column(document):
            remedy = "write rows; in pandas to_json(path, orient='records', lines=True)"
            raise at.refusal("dataset-by-column", "is one map of columns, not of rows", remedy)
    lines = head.splitlines()
    kept = lines[:-1] if rest else lines  # the last one is incomplete
    block = head[: head.find(b"\n", BLOCK_BYTES) + 1 or len(head)]
    first = sum(map(bool, map(bytes.strip, block.splitlines())))
    numbered = ((n, line) for n, line in enumerate(kept, 1) if line.strip())
    try:
        rows: Sequence[Mapping[str, Any]] = [
            _map(at, f"line {n}", _parse(at, line, n)) for n, line in numbered
        ]
    except LaunchError:
        spread = None if rest else json_text.read(head, BLOCK_BYTES)
        if spread is None:
            raise
        rows, first = spread
    found: list[tuple[int | None, Mapping[str, Any]]] = [*enumerate(rows, 1)]
    _refuse_null(at, rows)
    if rest:
        found += [(None, row) for row in _windows(at, len(head), windows)]
    if len(head) > len(block):
        shapes.refuse_late(at, found, first)
    return Rows(path=at.path, rows=found, total=None if rest else len(found))


def _json_list(at: Place, head: bytes, *, is_whole: bool) -> Rows:
    if is_whole:
        rows = [_map(at, "line 1", row) for row in _parse(at, head, 1)]
        _refuse_null(at, rows)
        return Rows(path=at.path, rows=[*enumerate(rows, 1)], total=len(rows))
    text, decoder, found = head.decode("utf-8", "ignore"), json.JSONDecoder(), []
    begin = text.index("[") + 1
    try:
        while True:
            value, begin = decoder.raw_decode(text, re.compile(r"[\s,]*").match(text, begin).end())  # type: ignore[union-attr]
            found.append(value)
    except ValueError:  # where the part that was read ends
        pass
    return Rows(path=at.path, rows=[*enumerate((_map(at, "the list", e) for e in found), 1)])


def _windows(at: Place, begin: int, count: int) -> Iterator[Mapping[str, Any]]:
    """Yield rows of parts of the file behind its beginning; not of a compressed one."""
    size = at.path.stat().st_size
    with at.path.open("rb") as handle:
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
                    yield _map(at, place, _parse(at, line, 0, place))


def _document(head: bytes) -> Mapping[str, Any]:
    """Return a file that is one JSON map and no row; empty otherwise."""
    if head.count(b"\n") > 10_000 or head.lstrip()[:1] != b"{":
        return {}
    try:
        found: Mapping[str, Any] = json.loads(head.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return {} if {"messages", "conversations"} & {*found} else found


def _wrapped(document: Mapping[str, Any]) -> str:
    """Return the key under which a document's rows stand; empty otherwise."""
    if {"chosen", "rejected"} & {*document}:
        return ""
    lists = [k for k, v in document.items() if isinstance(v, list) and v and isinstance(v[0], dict)]
    return "train" if "train" in lists else lists[0] if len(lists) == 1 else ""


def _is_by_column(document: Mapping[str, Any]) -> bool:
    """Return whether the values are whole columns: lists of texts, or maps by number (pandas)."""
    values = [each for each in document.values() if isinstance(each, list | dict)]
    whole = len(values) == len(document) > 1 and len({*map(len, values)}) == 1 < len(values[0])
    return whole and all("0" in v if isinstance(v, dict) else isinstance(v[0], str) for v in values)


def _refuse_null(at: Place, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a null before the first map, where Arrow ends the process with SIGSEGV."""
    if rows and rows[0] is _NULL:
        wrong, remedy = "begins with a row that is null", "remove rows that are null"
        raise at.refusal("dataset-row", wrong, remedy)


def _map(at: Place, place: str, row: Any) -> Mapping[str, Any]:
    if row is None:
        return _NULL
    if isinstance(row, Mapping):
        return row
    raise at.refusal("dataset-row", f"{place}: the row is not a map", "use one map per line")


def _parse(at: Place, text: bytes, number: int, place: str = "") -> Any:
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
        if row_folder.is_spread(at.path, text):
            wrong = f"{where} is not one JSON map, and datasets cannot read a file of this size so"
            remedy = f"write one map per line: jq -c . {at.path.name} > rows.jsonl"
            raise at.refusal("dataset-json-lines", wrong, remedy) from None
        wrong, remedy = f"{where} is not JSON: {error}", "use one JSON map per line, in UTF-8"
        raise at.refusal("dataset-json", wrong, remedy) from None


def _text(at: Place, handle: BinaryIO, most: int) -> Rows:
    lines = handle.read(most).decode("utf-8", "replace").splitlines()
    found = [(n, {"text": line}) for n, line in enumerate(lines, 1)]
    return Rows(path=at.path, rows=found, total=None if handle.read(1) else len(found))


def _csv(at: Place, handle: BinaryIO, most: int) -> Rows:
    """Read a csv, or a tsv of a folder; columns of numbers or switches are such, as in pandas."""
    csv.field_size_limit(CSV_LIMIT)
    head = handle.read(most)
    is_whole = not handle.read(1)
    try:
        text = (head if is_whole else head[: head.rindex(b"\n")]).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise at.refusal("dataset-csv", f"is not in UTF-8: {error}", "use UTF-8") from None
    between = "\t" if ".tsv" in at.path.suffixes else ","
    file = io.StringIO(text, newline="")
    names = _names(next(csv.reader(file, delimiter=between), []))
    if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
        wrong = f"has the separator {other[0]!r} in its first line"
        raise at.refusal("dataset-csv", wrong, "write it with commas, or as JSON lines")
    rows: list[dict[str, Any]] = [*csv.DictReader(file, names, restval="", delimiter=between)]
    if wide := next((n for n, row in enumerate(rows, 1) if row.keys() & {None}), 0):
        wrong = f"row {wide} has more fields than the first line has names"
        raise at.refusal("dataset-csv", wrong, "quote texts that hold the separator")
    for name in rows[0] if rows else ():
        column = [row[name] for row in rows]
        read: Callable[[str], object] | None = None
        if all(map(_is_number, column)):
            read = float
        elif {*column} <= _SWITCHES:
            read = "TRUE".__eq__
        for row in rows if read else ():
            row[name] = read(row[name].upper()) if read else None
    return Rows(path=at.path, rows=[*enumerate(rows, 1)], total=len(rows) if is_whole else None)


def _names(header: Sequence[str]) -> list[str]:
    """Return the names that pandas gives to columns without one, and to those that repeat."""
    found: list[str] = []
    for n, name in enumerate(header):
        name = name or f"Unnamed: {n}"
        found.append(f"{name}.{found.count(name)}" if name in found else name)
    return found


def _is_number(text: object) -> bool:
    return isinstance(text, str) and bool(_NUMBER.fullmatch(text.strip()))


def _refuse_other_columns(at: Place, found: Sequence[Rows]) -> None:
    """Refuse files of one split with other columns (``datasets``: DatasetGenerationCastError)."""
    first = found[0]
    if first.path.suffix in _LINES and first.is_whole and first.path.stat().st_size < BLOCK_BYTES:
        for each in found[1:]:
            shapes.refuse_late(Place(at.key, each.path), [*first.rows, *each.rows], len(first.rows))
    known = [each for each in found if each.rows and each.path.suffix in _TYPED]
    for each in known[1:]:
        differ = {*each.columns} - {*known[0].columns}
        if differ:
            raise at.refusal(
                "dataset-columns-differ",
                f"has files of other columns: {', '.join(sorted(differ))}",
                f"give {known[0].path.name} and {each.path.name} the same columns, or name each "
                "file in recipe.dataset",
            )
