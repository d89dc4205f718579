"""A report has a section with the rows that were kept, and the reasons of the others."""

import json
from pathlib import Path
from typing import Any

from scripts.report import facts
from scripts.report.reading import read
from scripts.report.record import RunRecord
from tests.scripts.report.planted import plant


def counted(root: Path, **counts: Any) -> RunRecord:
    work = plant(root)
    (work.attempts / "2" / "packing.json").write_text(json.dumps(counts))
    return read(work)


def test_counts_and_reasons_are_rows_of_their_own(tmp_path: Path) -> None:
    not_all = {"rows_dropped": {"longer than max_length": 2}, "pairs_doubtful": {"equal sides": 1}}
    run = counted(tmp_path, rows_read=8000, rows_kept=7998, packs=3, **not_all)
    assert [*facts.rows(run)] == [
        ("read", "8,000"),
        ("kept", "7,998"),
        ("dropped: longer than max_length", "2"),
        ("trained on, but: equal sides", "1"),
    ]
    assert [*facts.packs(run)] == [("packs", "3")]


def test_rows_that_training_replaced_are_counted_with_those_that_it_drew(tmp_path: Path) -> None:
    counts = {"rows_read": 9, "rows_kept": 9, "rows_so_far": "while rank 0 reads them"}
    counts |= {"rows_drawn": 1200, "rows_replaced": {"longer than max_length": 30}}
    assert [*facts.rows(counted(tmp_path, **counts))][2:] == [
        ("counted", "while rank 0 reads them"),
        ("drawn by rank 0", "1,200"),
        ("drawn, but replaced by another row: longer than max_length", "30"),
    ]


def test_rows_that_are_not_counted_are_named(tmp_path: Path) -> None:
    run = counted(tmp_path, rows_not_counted="a multimodal model", packs=3)
    assert [*facts.rows(run)] == [("not counted", "a multimodal model")]
