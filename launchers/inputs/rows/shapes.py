"""The types of columns, by which ``datasets`` puts rows of several places into one table.

The first block of JSON lines of the first file decides about columns, the keys of maps and types.
Later a key that is missing is null; one that is new, or was null in all rows of the first block,
or a value of another type ends the run (``datasets/table.py``: ``cast_table_to_schema``,
``array_cast``, 4.8.4).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from launchers.inputs.row_folder import Place

Shape = Any
"""Keys of a map with the shape of each; a list of one shape; names of types; None for null."""


def refuse_late(
    at: Place, rows: Sequence[tuple[int | None, Mapping[str, Any]]], first: int
) -> None:
    """Refuse a file whose later rows have what the first block lacks.

    Args:
        at: the file.
        rows: with their numbers.
        first: rows that begin in the first block.

    Raises:
        LaunchError: DATA, naming the row and the column.
    """
    known = shape(row for _, row in rows[:first])
    for number, row in rows[first:]:
        if name := late(known, row):
            raise at.refusal(
                "dataset-columns-late",
                f"has {name} in {f'row {number}' if number else 'a later row'}, but no such value "
                f"of it in the first {first} rows, which decide about columns and types",
                "give all rows the same keys and types, with a value of each in the first rows",
            )


def shape(values: Iterable[Any]) -> Shape:
    """Return the common shape of values.

    >>> shape([{"a": None}, {"b": [{"c": 1}]}])
    {'a': None, 'b': [{'c': 'int'}]}
    """
    given = [value for value in values if value is not None]
    kinds = sorted({type(value).__name__ for value in given})
    if kinds == ["dict"]:
        names = dict.fromkeys(chain.from_iterable(given))
        return {name: shape(value.get(name) for value in given) for name in names}
    if kinds == ["list"]:
        return [shape(chain.from_iterable(given))]
    return "float" if kinds == ["float", "int"] else " or ".join(kinds) or None


def refuse_types(
    tables: Sequence[tuple[str, Path, Sequence[Mapping[str, Any]], Mapping[str, str]]],
) -> None:
    """Refuse datasets that ``datasets`` cannot put together: a column has another type in each.

    Args:
        tables: key, path, all rows and ``Reader.typed``, of each dataset.

    Raises:
        LaunchError: DATA, naming the column.
    """
    seen: dict[str, tuple[Path, Shape]] = {}
    for key, path, rows, names in tables:
        for old, new in names.items():
            made = shape(row.get(old) for row in rows)
            first, known = seen.setdefault(new, (path, made)) if made is not None else (path, None)
            if made != known:
                wrong = f"has {old} as {_shown_type(made)}, and {first} as {_shown_type(known)}"
                remedy = f"give {new} one type in all datasets, such as a text"
                raise Place(key, path).refusal("dataset-types-differ", wrong, remedy)


def _shown_type(found: Shape) -> str:
    text = json.dumps(found) if isinstance(found, list | dict) else str(found)
    return text if len(text) < 80 else f"{text[:80]}..."


def late(known: Shape, value: Any) -> str:
    """Return the name of what a value has and a shape lacks, or has of another type; or empty.

    Numbers become texts, but not the other way round (``datasets/table.py: array_cast``).

    >>> late({"a": None, "b": [{"c": "int"}]}, {"b": [{"c": 1}, {"d": 2}]})
    'b.d'
    >>> late({"a": "int", "b": "str"}, {"b": 1}), late({"a": "int"}, {"a": 0.5})
    ('', 'a')
    """
    if isinstance(known, Mapping) and isinstance(value, Mapping):
        for name, each in value.items():
            inner = late(known[name], each) if name in known else " "
            if inner:
                return f"{name}.{inner}".rstrip(". ")
    elif isinstance(known, list) and isinstance(value, list):
        return next(filter(None, (late(known[0], each) for each in value)), "")
    elif value is not None and not _is_cast(known, value):
        return " "
    return ""


def _is_cast(known: Shape, value: Any) -> bool:
    """Return whether a value that is not null can have the type of a shape; several are JSON."""
    if isinstance(value, Mapping | list) or not isinstance(known, str):
        return isinstance(known, str) and " or " in known
    try:
        return known not in ("int", "float") or float(value) % 1 == 0 or known == "float"
    except ValueError:
        return False
