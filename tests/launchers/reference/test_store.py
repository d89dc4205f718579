"""The store of reference log-probabilities: what survives kills, torn files and second writers."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.reference import store
from launchers.reference.store import Pairs


def pairs(*numbers: int) -> Pairs:
    return {n.to_bytes(16, "big"): (-1.5 * n, -2.5 * n) for n in numbers}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.begin(tmp_path / "s", {"model": "m"})
    return tmp_path / "s"


def test_what_is_completed_is_read_back(folder: Path) -> None:
    assert store.read(folder) is None
    store.complete(folder, pairs(1, 2, 3), {"seconds": 2.0})
    assert store.read(folder) == (pairs(1, 2, 3), {"seconds": 2.0})
    assert store.read_facts(folder) == {"model": "m"}


def test_entries_are_24_bytes_and_keep_float32() -> None:
    given: Pairs = {b"x" * 16: (-41341.0625, -0.1)}
    assert len(store.pack(given)) == 24
    [(chosen, rejected)] = store.unpack(store.pack(given)).values()
    assert chosen == -41341.0625
    assert rejected == pytest.approx(-0.1, abs=1e-8)


def test_parts_of_several_writers_come_together(folder: Path) -> None:
    store.add_part(folder, pairs(1, 2))
    store.add_part(folder, pairs(2, 3))
    assert store.read_parts(folder) == pairs(1, 2, 3)


@pytest.mark.parametrize("left", [0, 1, 31, 32, 40, 79, "flipped"])
def test_a_torn_part_is_passed_over(folder: Path, left: int | str) -> None:
    (folder / "parts" / ".abc.bin.123").write_bytes(b"half")  # left by a kill
    store.add_part(folder, pairs(1, 2))
    [part] = (folder / "parts").glob("*.bin")
    data = bytearray(part.read_bytes())
    data[20] ^= 1
    part.write_bytes(data if isinstance(left, str) else part.read_bytes()[:left])
    store.add_part(folder, pairs(3))
    assert store.read_parts(folder) == pairs(3)


@pytest.mark.parametrize("what", ["cut", "flipped", "gone", "no note", "torn note", "odd note"])
def test_a_store_that_is_not_whole_is_none(folder: Path, what: str) -> None:
    store.complete(folder, pairs(1, 2), {})
    [data], note = folder.glob("pairs-*.bin"), folder / "complete.json"
    match what:
        case "cut":
            data.write_bytes(data.read_bytes()[:24])
        case "flipped":
            data.write_bytes(b"\1" + data.read_bytes()[1:])
        case "gone":
            data.unlink()
        case "no note":
            note.unlink()
        case "torn note":
            note.write_text(note.read_text()[:20])
        case _:
            note.write_text("[1]")
    assert store.read(folder) is None


def test_completing_removes_the_parts_and_says_what_it_took(folder: Path) -> None:
    store.add_part(folder, pairs(1))
    store.complete(folder, pairs(1), {"seconds": 3.0, "tokens": 9})
    assert list((folder / "parts").iterdir()) == []
    note = json.loads((folder / "complete.json").read_text())
    assert (note["pairs"], note["cost"]) == (1, {"seconds": 3.0, "tokens": 9})


def test_two_writers_at_once_leave_a_whole_store(folder: Path) -> None:
    def write(own: bytes) -> None:
        for count in range(1, 20):
            store.add_part(folder, pairs(*range(count)))
            store.complete(folder, {**pairs(*range(20)), own: (-1.0, -1.0)}, {"own": own.hex()})
            store.read_parts(folder)

    owns = [n.to_bytes(16, "big") for n in range(100, 104)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(write, owns))
    whole = store.read(folder)
    assert whole is not None
    found, cost = whole
    assert found == {**pairs(*range(20)), bytes.fromhex(cost["own"]): (-1.0, -1.0)}


def test_equal_pairs_may_differ_by_rounding_and_the_first_stays() -> None:
    known: Pairs = {b"a" * 16: (-300.0, -200.0)}
    store.add(known, [(b"a" * 16, (-300.9, -199.5))], Path("/w/reference/1"))
    assert known == {b"a" * 16: (-300.0, -200.0)}


@pytest.mark.parametrize("other", [(-304.0, -200.0), (-300.0, -190.0), (0.0, -200.0)])
def test_equal_pairs_of_two_models_are_refused(other: tuple[float, float]) -> None:
    known: Pairs = {b"a" * 16: (-300.0, -200.0)}
    with pytest.raises(LaunchError, match="61616161.*remove /w/reference/1") as refusal:
        store.add(known, [(b"a" * 16, other)], Path("/w/reference/1"))
    assert refusal.value.code == Exit.DATA


def test_small_values_are_compared_by_the_bound_itself() -> None:
    assert not store.differ(-0.001, -0.009)
    assert store.differ(-0.001, -0.02)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused_with_its_pair(bad: float) -> None:
    with pytest.raises(LaunchError, match="62626262") as refusal:
        store.add({}, [(b"b" * 16, (-1.0, bad))], Path("/w"))
    assert refusal.value.code == Exit.DATA


def test_bytes_that_end_within_an_entry_are_refused() -> None:
    with pytest.raises(ValueError, match="25 bytes"):
        store.unpack(b"x" * 25)


def test_beginning_again_keeps_what_is_there(folder: Path) -> None:
    store.add_part(folder, pairs(7))
    before = (folder / "facts.json").stat().st_mtime_ns
    store.begin(folder, {"model": "m"})
    assert store.read_parts(folder) == pairs(7)
    assert (folder / "facts.json").stat().st_mtime_ns == before
