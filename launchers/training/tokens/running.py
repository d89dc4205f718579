"""Count the rows of a run that has no cache of tokens, where rank 0's processes see them.

Rank 0 reads every row of a stream (``swift/dataloader/dispatcher.py``) and maps a dataset for all
ranks. A stream is mapped while training draws it, and so are rows of a multimodal model
(``lazy_tokenize``): then the counts grow with training. Of a dataset that is mapped at the start,
the lengths before and after count, since a later attempt reads the mapped rows from the cache of
``datasets`` and maps none.
"""

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from swift.dataset import EncodePreprocessor, RowPreprocessor
from swift.utils import get_logger

from launchers.progress import row_counts
from launchers.progress.row_counts import ROWS
from launchers.training.tokens import row_account, row_verdict
from launchers.training.tokens.row_account import Account

_call, _batched = RowPreprocessor.__call__, RowPreprocessor.batched_preprocess
_logger = get_logger()
_OFTEN = 100
"""A process writes its counts when they are this part of those that it has written."""


class Running(Account):
    """Counts that each process of rank 0 appends to one file."""

    has_numbers = False

    def __init__(self, path: Path, *, is_kto: bool, is_stream: bool) -> None:
        """Take the file, whether the rows are those of KTO, and whether they are a stream."""
        super().__init__(path, is_left_cut=False, is_kto=is_kto)
        self.is_stream, self.written = is_stream, 0
        self.pending = Counter[str]()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self.pending, self.found, self.written = Counter(), {}, 0

    def end_preparation(self, limit: float) -> None:
        """Judge a mapped dataset; forget rows of a stream that were read to show one of them.

        ``limit``: ``recipe.maxDroppedRows``; a stream has none.

        Raises:
            LaunchError: DATA, as ``row_verdict.refuse``.
        """
        if self.is_stream:
            self.restart()
        elif found := row_counts.read(self.path):
            for complaint in row_verdict.complaints(found):
                _logger.warning("rows %s", complaint)
            row_verdict.refuse(found, limit)

    def restart(self) -> None:
        """Count from 0."""
        self._forget()
        with contextlib.suppress(OSError):  # ``add`` says that rows are not counted
            self.path.unlink(missing_ok=True)

    def flush(self, **counts: int) -> None:
        """Note what a process has mapped; of a mapped dataset the lengths count."""
        self.add(**(counts if self.is_stream else {}))

    def add(self, **counts: int) -> None:
        """Note counts; write them and the reasons when they have become many."""
        self.pending.update(counts)
        amount = sum(self.pending.values())
        if not self.pending and not self.found or self.pending and amount * _OFTEN < self.written:
            return
        self.written += amount
        try:
            super().flush(**self.pending)
        except OSError as error:  # counts do not end a run
            _logger.warning_once(f"rows are not counted: {error}")
        self.pending = Counter()

    def drawing(self, encode: Callable[..., Any]) -> Callable[..., Any]:
        """Return a template's ``encode`` that counts the rows which training draws."""

        def drawn(row: Any, *given: Any, **named: Any) -> Any:
            try:
                return encode(row, *given, **named)
            except Exception as error:
                why = row_account.reason(error, is_kto=self.is_kto)
                self.note(why, self.file, None, dropped=None)
                raise
            finally:
                self.add(drawn=1)

        return drawn


def begin(args: Any) -> Running | None:
    """Count from here to the end of the process; None if this is not rank 0 or has no attempt."""
    attempt = os.environ.get("DPO_ATTEMPT_FOLDER")
    if os.environ.get("RANK", "0") != "0" or not attempt:
        return None
    is_kto = getattr(args, "rlhf_type", None) == "kto"
    account = Running(Path(attempt) / ROWS, is_kto=is_kto, is_stream=args.streaming)
    account.restart()

    @functools.wraps(_batched)  # its name is part of the key of the cache of ``datasets``
    def batched(self: Any, batched_row: Any, **kwargs: Any) -> dict[str, Any]:
        return row_account.each(account, self, batched_row, **kwargs)

    @functools.wraps(_call)
    def call(self: Any, dataset: Any, **kwargs: Any) -> Any:
        made = _call(self, dataset, **kwargs)
        if isinstance(dataset, Dataset) and type(self).batched_preprocess is batched:
            encodes = isinstance(self, EncodePreprocessor)
            read = (self.dataset_sample or len(dataset)) if not encodes else 0
            kept = {"kept" if encodes else "passed": len(made)}
            account.add(mapped=1, read=read, tried=len(dataset) * encodes, **kept)
        return made

    RowPreprocessor.batched_preprocess, RowPreprocessor.__call__ = batched, call
    return account
