"""A run finds its store: first start, restart, resume, and too late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.training.reference import run_store, store
from launchers.training.reference.run_store import Opened, open_store, record, recorded, stores
from launchers.training.reference.store import Pairs
from tests.launchers.training.reference.references import arguments

ONE: Pairs = {b"1" * 16: (-1.0, -2.0)}


def run_of(tmp_path: Path) -> Path:
    return tmp_path / "w" / "runs" / "one"


def test_a_fresh_run_begins_a_store_and_goes_on_with_parts(tmp_path: Path) -> None:
    home, args = run_of(tmp_path), arguments(tmp_path)
    first = open_store(home, args, 0, "4.4.1")
    assert (first.complete, first.pairs, first.folder.parent) == (False, {}, stores(home))
    store.add_part(first.folder, ONE)
    assert open_store(home, args, 0, "4.4.1").pairs == ONE


def finish(home: Path, args: Any) -> Opened:
    opened = open_store(home, args, 0, "4.4.1")
    opened.pairs.update(ONE)
    done = opened.after(2.0, 1000, 4)
    store.complete(done.folder, done.pairs, done.cost)
    record(home, done)
    return done


def test_the_run_notes_what_its_pass_took(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    finish(home, arguments(tmp_path))
    note = recorded(home)
    assert (note["from"], note["seconds"], note["pairs"], note["tokens"]) == ("pass", 2.0, 1, 1000)
    assert note["tokens_per_second_per_gpu"] == 125.0


def test_another_run_finds_the_store(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    finish(run_of(tmp_path), args)
    other = run_of(tmp_path).with_name("two")
    opened = open_store(other, args, 0, "4.4.1")
    record(other, opened)
    assert (opened.complete, opened.source, opened.pairs) == (True, "store", ONE)
    assert (recorded(other)["from"], recorded(other)["seconds"]) == ("store", 2.0)


def test_a_resumed_run_reads_the_store_and_keeps_its_note(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    finish(home, arguments(tmp_path))
    opened = open_store(home, arguments(tmp_path, mcore_model="/w/checkpoint-3"), 3, "4.4.1")
    record(home, opened)
    assert opened.pairs == ONE
    assert recorded(home)["from"] == "pass"


def test_a_resumed_run_without_a_whole_store_gets_a_remedy(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    begun = open_store(home, arguments(tmp_path), 0, "4.4.1")
    store.add_part(begun.folder, ONE)
    with pytest.raises(LaunchError) as reported:
        open_store(home, arguments(tmp_path), 3, "4.4.1")
    for word in ("has done 3 steps", str(begun.folder), "is incomplete", "online", "checkpoints"):
        assert word in str(reported.value)
    assert reported.value.code == Exit.CONFIG


def test_a_resumed_run_with_other_facts_names_them(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    finish(home, arguments(tmp_path))
    finish(home.with_name("two"), arguments(tmp_path, max_length=4096))
    with pytest.raises(LaunchError, match="max_length was 8192 and is 4096; revert"):
        open_store(home, arguments(tmp_path, max_length=4096), 3, "4.4.1")


def test_a_fresh_run_with_other_facts_begins_another_store(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    done = finish(home, arguments(tmp_path))
    other = open_store(home, arguments(tmp_path, max_length=4096), 0, "4.4.1")
    assert (other.complete, other.folder != done.folder) == (False, True)


def test_a_torn_note_counts_as_none(tmp_path: Path) -> None:
    home = run_of(tmp_path)
    home.mkdir(parents=True)
    (home / run_store.RECORD).write_text('{"from": ')
    assert recorded(home) == {}
