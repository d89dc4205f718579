"""Count the rows that are read, kept and dropped while a dataset is tokenised, with the reasons.

ms-swift drops a row that its reader or its template refuses, and says so in one INFO line
(``swift/dataset/preprocessor/core.py: batched_preprocess``). Here each row is mapped on its own, so
that its exception is known; its number travels in a column. The workers of ``dataset_num_proc``
share a file.
"""

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swift.dataset import EncodePreprocessor, RowPreprocessor
from swift.dataset.loader import DatasetLoader
from swift.template import MaxLengthError
from swift.utils import get_logger

from launchers.progress import row_counts
from launchers.training.tokens import pair_faults

ROW = "dpo_row"
"""The column with the number of a row in its dataset, from 1."""
FILE = "dpo_file"
"""The column of tokenised rows with the dataset of a row, as ms-swift is given it."""
_WORDS = {
    "_check_rejected_response": "no rejected answer, or one that equals the chosen answer",
    "_check_messages": "a turn of an unknown role or without content",
    "_compat_rejected_response": "a rejected_response that is neither a text nor a list of turns, "
    "or equals the chosen answer",
    "_parse_tool_call": "a tool_call that is not a JSON map with name and arguments",
}
"""Reasons by the function of ms-swift that raises."""
_call, _batched = RowPreprocessor.__call__, RowPreprocessor.batched_preprocess
_load = DatasetLoader.load
_logger = get_logger()


class Account:
    """The counts of one dataset while it is tokenised."""

    has_numbers = True
    """Whether rows have a column with their number."""

    def __init__(self, path: Path, *, is_left_cut: bool, is_kto: bool) -> None:
        """Take the file of the counts, whether long texts are cut at their beginning, and KTO."""
        self.path, self.is_left_cut, self.is_kto = path, is_left_cut, is_kto
        self.file = ""
        self.found: dict[str, dict[str, Any]] = {}

    def note(
        self, why: str, file: object, row: object, *, dropped: bool | None, text: str = ""
    ) -> None:
        """Note one row; ``dropped`` is None where training drew another one in its place."""
        entry = self.found.setdefault(
            why, {"count": 0, "dropped": dropped, "rows": [], "example": text[:120]}
        )
        entry["count"] += 1
        entry["rows"] = row_counts.first([*entry["rows"], [str(file), row]])

    def flush(self, **counts: int) -> None:
        """Append what was noted; one write, which other processes do not interrupt."""
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps({"counts": counts, "reasons": self.found}) + "\n")
        self.found = {}

    def document(self) -> dict[str, Any]:
        """Return the counts of all processes: rows read and kept, and the reasons by count."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return row_counts.document(text.splitlines())


@contextmanager
def counting(account: Account) -> Iterator[None]:
    """Count the rows that ms-swift maps within the block."""

    def load(self: Any, dataset_syntax: Any = None, *args: Any, **kwargs: Any) -> Any:
        account.file = str(getattr(dataset_syntax, "dataset", ""))
        return _load(self, dataset_syntax, *args, **kwargs)

    def call(self: Any, dataset: Any, **kwargs: Any) -> Any:
        if ROW not in dataset.column_names:
            dataset = dataset.add_column(ROW, range(1, len(dataset) + 1))
        return _call(self, dataset, **kwargs)

    def batched(self: Any, batched_row: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        return each(account, self, batched_row, **kwargs)

    RowPreprocessor.standard_keys.append(ROW)
    RowPreprocessor.__call__, RowPreprocessor.batched_preprocess = call, batched
    DatasetLoader.load = load
    _logger.addFilter(_is_said)
    try:
        yield
    finally:
        RowPreprocessor.standard_keys.remove(ROW)
        RowPreprocessor.__call__, RowPreprocessor.batched_preprocess = _call, _batched
        DatasetLoader.load = _load
        _logger.removeFilter(_is_said)


def _is_said(record: logging.LogRecord) -> bool:
    return "strict=False" not in record.getMessage()  # upstream's advice to another call


def each(
    account: Account, self: Any, batched_row: Mapping[str, Any], *, strict: bool, **_: Any
) -> dict[str, Any]:
    """Map each row on its own, as upstream maps a batch of them."""
    encodes, made, seen, kept = isinstance(self, EncodePreprocessor), list[Any](), 0, 0
    for row in RowPreprocessor.batched_to_rows(dict(batched_row)):
        number, file = row.get(ROW), row.get("dataset", account.file)
        if encodes:
            row.pop(ROW, None)
        one = {name: [value] for name, value in row.items()}
        seen += 1
        try:
            if encodes and account.is_kto:  # as upstream, which keeps the texts
                self._check_rejected_response(row)
            result = _batched(self, one, strict=True, ignore_max_length_error=False)
        except Exception as error:
            if strict:
                raise
            why = reason(error, is_kto=account.is_kto)
            account.note(why, file, number, dropped=True, text=str(error))
            _say(self, error)
            continue
        found = RowPreprocessor.batched_to_rows(result)
        if not found:
            account.note("no messages", file, number, dropped=True)
        for one_row in [*found] if account.is_kto and not encodes else ():
            if why := pair_faults.unlabelled(one_row):
                account.note(why, file, number, dropped=True)
                found.remove(one_row)
        if encodes:
            kept += bool(found)
            for encoded in found:
                encoded |= {FILE: str(file)} if account.has_numbers else {}
                messages = row.get("messages") or []
                for why in pair_faults.faults(encoded, messages, is_left_cut=account.is_left_cut):
                    account.note(why, file, number, dropped=False)
        for row in found if account.has_numbers else ():
            row[ROW] = number  # a reader of the user may return a new row
        made += found
    account.flush(**({"tried": seen, "kept": kept} if encodes else {"read": seen}))
    return RowPreprocessor.rows_to_batched(made) or {"messages": []}


def reason(error: Exception, *, is_kto: bool) -> str:
    """Return a reason that rows of one kind share: no text of the row is part of it."""
    if isinstance(error, MaxLengthError):
        return "longer than max_length"
    frames = traceback.extract_tb(error.__traceback__)
    known = [_WORDS[frame.name] for frame in frames if frame.name in _WORDS]
    if known and is_kto and "rejected" in known[-1]:
        return "the answer of the row before it, or the only row of its batch (KTO's KL term)"
    if known:
        return known[-1]
    last = frames[-1]
    return f"{type(error).__name__} in {last.name} ({Path(last.filename).name}:{last.lineno})"


def _say(self: Any, error: Exception) -> None:
    """Log a traceback as upstream does: of the first errors of a process."""
    limit = self.traceback_limit
    if isinstance(error, MaxLengthError) or limit is None or self._traceback_counter >= limit:
        return
    self._traceback_counter += 1
    _logger.info("".join(traceback.format_exception(error)))
    _logger.warning("There are errors in the dataset, the data will be deleted")
