"""Count the rows of a packed stream, which processes of ``swift/dataset/packing.py`` tokenise.

They answer a row that the template refuses with nothing. It is tokenised once more here, where its
exception is seen.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from swift.dataset.packing import IterablePackingDataset

from launchers.training.tokens import row_account
from launchers.training.tokens.running import Running

_iter, _put = IterablePackingDataset.__iter__, IterablePackingDataset._put_data_in_queue
_fetch = IterablePackingDataset._fetch_data_out_queue


class Answers:
    """The queue of tokenised rows, which notes the numbers of the empty ones."""

    def __init__(self, queue: Any) -> None:
        """Take upstream's queue."""
        self.queue, self.empty = queue, list[int]()

    def get(self, *given: Any, **named: Any) -> Any:
        """Return what upstream's queue returns."""
        number, row = self.queue.get(*given, **named)
        if not row:
            self.empty.append(number)
        return number, row


class First:
    """A stream of which upstream takes a row to see whether there is one, and then all."""

    def __init__(self, packs: Any, account: Running) -> None:
        """Stand in for the stream of packs until that row is taken."""
        self.packs, self.rows, self.account = packs, packs.dataset, account
        packs.dataset = self

    def __iter__(self) -> Iterator[Any]:
        """Return the first row; what is read for it is not counted."""
        self.packs.dataset = self.rows
        with self.account.unseen():
            return iter([*islice(self.rows, 1)])


def count(account: Running) -> None:
    """Count the rows of packed streams from here to the end of the process."""
    sent = list[Any]()

    def iterate(self: Any) -> Iterator[Any]:
        First(self, account)
        rows: Iterator[Any] = _iter(self)
        return rows

    def put(self: Any, iterator: Iterator[Any]) -> Any:
        sent.clear()

        def kept() -> Iterator[Any]:
            for row in iterator:
                sent.append(row)
                yield row

        return _put(self, kept())

    def fetch(self: Any, rows: Any, amount: int) -> Any:
        queue = self._out_queue
        self._out_queue = answers = Answers(queue)
        try:
            made = _fetch(self, rows, amount)
        finally:
            self._out_queue = queue
        for number in answers.empty:
            account.note(_why(self.template, sent[number]), account.file, None, dropped=True)
        account.add(tried=amount, kept=amount - len(answers.empty))
        return made

    IterablePackingDataset.__iter__, IterablePackingDataset._put_data_in_queue = iterate, put
    IterablePackingDataset._fetch_data_out_queue = fetch


def _why(template: Any, row: Any) -> str:
    try:
        template.encode(row, return_length=True)
    except Exception as error:
        return row_account.reason(error, is_kto=False)
    return "no tokens"
