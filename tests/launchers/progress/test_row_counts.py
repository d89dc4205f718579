"""Rows that are counted while they are read add up: rows read are those kept and dropped."""

import json
from pathlib import Path
from typing import Any

from launchers.progress import row_counts
from launchers.progress.row_counts import EARLIER, ROWS

LONG = {"count": 2, "dropped": True, "rows": [["a.jsonl", None]]}


def write(attempt: Path, *lines: Any) -> dict[str, Any]:
    text = "".join(json.dumps({"reasons": {}, **line}) + "\n" for line in lines)
    (attempt / ROWS).write_text(text + '{"counts": {"re')  # a process is writing
    return row_counts.so_far(attempt)


def test_rows_of_a_stream_that_are_not_yet_tokenised_count_as_neither(tmp_path: Path) -> None:
    assert row_counts.so_far(tmp_path) == {}
    read = {"counts": {"read": 64}}
    for none in ({"tried": 16}, {"mapped": 1}):
        assert (found := write(tmp_path, {"counts": none}))["rows_read"] == found["rows_kept"] == 0
    one = {"counts": {"tried": 16, "kept": 14}, "reasons": {"too long": LONG}}
    found = write(tmp_path, read, one, one)
    assert (found["rows_read"], found["rows_kept"]) == (32, 28)
    assert found["rows_dropped"] == {"too long": 4}


def test_rows_that_an_earlier_attempt_has_mapped_are_dropped_without_a_reason(
    tmp_path: Path,
) -> None:
    counts = {"mapped": 2, "read": 8, "passed": 8, "tried": 8, "kept": 7}
    found = write(tmp_path, {"counts": counts})
    assert (found["rows_read"], found["rows_kept"]) == (8, 7)
    assert found["rows_dropped"] == {EARLIER: 1}


def test_rows_that_training_draws_are_those_of_the_reader(tmp_path: Path) -> None:
    drawn = {"counts": {"drawn": 40}, "reasons": {"too long": {**LONG, "dropped": None}}}
    found = write(tmp_path, {"counts": {"mapped": 1, "read": 9, "passed": 9}}, drawn)
    assert (found["rows_read"], found["rows_kept"], found["rows_dropped"]) == (9, 9, {})
    assert (found["rows_drawn"], found["rows_replaced"]) == (40, {"too long": 2})
