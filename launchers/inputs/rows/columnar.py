"""The rows of a parquet or Arrow file, in part where there are many.

Both need pyarrow, which the training image has. Rows are read up to a limit in bytes of their
texts; the bytes of images in parquet are not: a column that is bytes in all rows has ``BYTES``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from launchers.inputs.row_folder import Place

GROUPS, GROUP_ROWS = 16, 2000
"""Row groups of a large parquet file of which rows are read, with the first and the last; rows of
each. Several files share the product."""
BATCH_ROWS = 500
"""Rows that are read of a parquet file at a time, before their bytes are counted."""
BUFFER_BYTES = 1024**2
"""Part of a column that is read at a time."""
_MAGIC = (b"PAR1", b"PARE")
"""First and last bytes of a parquet file (Apache Parquet, File Format; PARE: encrypted footer)."""
BYTES = b"..."
Numbered = list[tuple[int | None, Mapping[str, Any]]]
Batches = Callable[[int], Iterable[Any]]


def read(at: Place, kind: str, most: int, files: int) -> tuple[Numbered, int] | str:
    """Return rows of the first and the last row group or batch, and of some between; and how many.

    Args:
        at: the file.
        kind: ``parquet`` or ``arrow``.
        most: bytes of texts that are read.
        files: files that share the limits.

    Returns:
        Numbered rows and their number in the file; or why none was read.

    Raises:
        LaunchError: DATA when it is not such a file.
    """
    if kind == "parquet":
        _refuse_broken_parquet(at)
    try:
        import pyarrow as pa
    except ImportError:
        return "pyarrow is missing: pip install pyarrow"
    try:
        schema, sizes, whole, batches, unread = (_parquet if kind == "parquet" else _arrow)(at.path)
        _refuse_columns(at, schema)
        is_small, count = whole <= most, len(sizes)
        every = 1 if is_small else max(1, count * files // GROUPS)
        chosen = {0, count - 1, *range(0, count, every)}
        left, share = (most, 0) if is_small else (0, most // len(chosen))
        size = min(GROUP_ROWS, max(50, GROUPS * GROUP_ROWS // files // len(chosen)))
        first, found = 1, Numbered()
        for group, rows in enumerate(sizes):
            if group in chosen:
                limit = rows if is_small else size
                taken, left = _taken(batches(group), left + share, limit)
                found += enumerate(({**row, **unread} for row in taken), first)
            first += rows
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):  # of the storage
            raise
        wrong = f"is not a valid {kind} file: {error}"
        raise at.refusal(f"dataset-{kind}", wrong, "copy it again") from None
    return found, first - 1


def _taken(batches: Iterable[Any], most: int, rows: int) -> tuple[list[Mapping[str, Any]], int]:
    """Return the first rows of record batches, one at least, and the bytes that are left."""
    found: list[Mapping[str, Any]] = []
    for batch in batches:
        part = batch.slice(0, rows - len(found))
        while part.nbytes > most and len(part) > 1:
            part = part.slice(0, len(part) // 2)
        found += part.to_pylist()
        most -= part.nbytes
        if most <= 0 or len(part) < len(batch) or len(found) == rows:
            break
    return found, max(0, most)


def _parquet(path: Path) -> tuple[Any, list[int], int, Batches, dict[str, bytes]]:
    """Return the schema, the rows of each row group, their bytes, a reader, and what it leaves out.

    With an image's bytes its path is left out too, which is of the machine that wrote the file; not
    in a turn's content, where ms-swift takes neither.
    """
    import pyarrow.parquet as pq

    # or it reads whole columns of a row group, which may be the file
    file = pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    columns = [*map(file.schema.column, range(len(file.schema)))]
    groups = [*map(file.metadata.row_group, range(file.metadata.num_row_groups))]
    raw = {
        n
        for n, leaf in enumerate(columns)
        if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type == "NONE"
    }
    images = {
        columns[n].path.rpartition(".")[0]
        for n in raw
        if not all(_nulls(group, n) == group.column(n).num_values for group in groups)
    }
    images = {each for each in images if each and ".content." not in each}
    leaves = [
        n
        for n, leaf in enumerate(columns)
        if n not in raw and leaf.path.rpartition(".")[0] not in images
    ]
    texts = [columns[n].path for n in leaves]
    whole = sum(group.column(n).total_uncompressed_size for group in groups for n in leaves)

    def batches(group: int) -> Iterable[Any]:
        found: Iterable[Any] = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=texts)
        return found

    sizes = [group.num_rows for group in groups]
    whole_bytes = {n for n in raw if all(_nulls(group, n) == 0 for group in groups)}
    unread = {columns[n].path: BYTES for n in whole_bytes if "." not in columns[n].path}
    return file.schema_arrow, sizes, max(whole, path.stat().st_size), batches, unread


def _nulls(group: Any, column: int) -> int | None:
    """Return how many values a row group lacks in a column; None if it does not say."""
    found = group.column(column).statistics
    return found.null_count if found and found.has_null_count else None


def _arrow(path: Path) -> tuple[Any, list[int], int, Batches, dict[str, bytes]]:
    """Return the same of a stream or a file with its batches, of which nothing is left out."""
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        data = pa.memory_map(str(path))
        try:
            yield from pa.ipc.open_stream(data)
        except pa.ArrowInvalid:  # as ``datasets`` (``packaged_modules/arrow/arrow.py``)
            data.seek(0)
            file = pa.ipc.open_file(data)
            yield from map(file.get_batch, range(file.num_record_batches))

    found = [(batch.schema, len(batch)) for batch in batches()]
    sizes = [size for _, size in found]
    return (
        found[0][0] if found else (),
        sizes,
        path.stat().st_size,
        lambda at: islice(batches(), at, at + 1),
        {},
    )


def _refuse_columns(at: Place, schema: Iterable[Any]) -> None:
    """Refuse columns that ``datasets`` does not read: names that are there twice, and maps."""
    names = [column.name for column in schema]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        wrong = f"has the column {twice[0]} twice"
        raise at.refusal("dataset-columns-twice", wrong, "rename or remove one of them")
    if maps := [column.name for column in schema if "map<" in str(column.type)]:
        wrong = f"has a column of a type that datasets does not read: {maps[0]} (map)"
        raise at.refusal("dataset-column-type", wrong, "remove it, or write it as a struct")


def _refuse_broken_parquet(at: Place) -> None:
    with at.path.open("rb") as handle:
        first = handle.read(4)
        handle.seek(max(0, at.path.stat().st_size - 4))
        last = handle.read(4)
    if first not in _MAGIC or last not in _MAGIC:
        where = "beginning" if first not in _MAGIC else "end: it is truncated"
        wrong = f"is not a valid parquet file: PAR1 is missing at its {where}"
        raise at.refusal("dataset-parquet", wrong, "copy it again")
