"""Digests by chunk, and what a comparison in limited time finds."""

import os
import zlib
from pathlib import Path

import pytest

from launchers.storage import chunk_digests, disk
from launchers.storage.chunk_digests import compare, digest, in_order

SIZES = {"a": 1000, "b": 64, "empty": 0}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chunk_digests, "CHUNK_BYTES", 64)
    for name, size in SIZES.items():
        (tmp_path / name).write_bytes(bytes(i % 251 for i in range(size)))
    return tmp_path


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("at", [0, 63, 64, 500, 999])
def test_one_flipped_bit_is_found_and_its_chunk_is_named(folder: Path, at: int) -> None:
    digests = digest(folder, SIZES, seconds=10)
    assert compare(folder, SIZES, digests, seconds=10).damaged == ()
    flip(folder / "a", at)
    (damaged,) = compare(folder, SIZES, digests, seconds=10).damaged
    assert damaged.startswith(f"a: bytes from {at // 64 * 64} ")


def test_nodes_share_the_comparison(folder: Path) -> None:
    digests = digest(folder, SIZES, seconds=10)
    flip(folder / "a", 500)
    parts = [compare(folder, SIZES, digests, seconds=10, part=i, parts=3) for i in range(3)]
    assert sum(len(part.damaged) for part in parts) == 1
    assert sum(part.compared for part in parts) == len(in_order(SIZES))


def test_without_time_nothing_is_read_and_nothing_is_called_whole(folder: Path) -> None:
    digests = digest(folder, SIZES, seconds=0)
    assert chunk_digests.covered(digests.values()) == (0, 17)
    whole = digest(folder, SIZES, seconds=10)
    found = compare(folder, SIZES, whole, seconds=0)
    assert (found.damaged, found.compared, found.share) == ((), 0, 17)


def test_what_a_writer_has_digested_is_not_read_again(folder: Path) -> None:
    first = digest(folder, {"a": SIZES["a"]}, seconds=10)
    (folder / "a").unlink()
    assert digest(folder, SIZES, seconds=10, known=first)["a"] == first["a"]


def test_the_ends_of_files_come_first_in_any_order() -> None:
    size = 100 * chunk_digests.CHUNK_BYTES
    first, other = in_order({"a": size, "b": size}, seed=1), in_order({"a": size, "b": size}, 2)
    assert [c.index for c in first[:4]] == [0, 99, 0, 99]
    assert first != other
    assert set(first) == set(other)


def test_a_part_is_flushed_before_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync = os.fdatasync

    def fdatasync(number: int) -> None:
        sync(number)
        done.append(f"flushed {os.fstat(number).st_size}")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(disk, "FLUSHED_BYTES", 100)
    with (tmp_path / "file").open("wb") as file:
        flush_parts = disk.GradualFlush(file, lambda: done.append("reported"))
        for size in (60, 60, 60, 500):
            file.write(bytes(size))
            flush_parts.advance()
    assert done == ["flushed 120", "reported", "flushed 680", "reported"]


def test_a_copy_reports_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_digests, "CHUNK_BYTES", 100)
    monkeypatch.setattr(disk, "FLUSHED_BYTES", 150)
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"x" * 500)
    digests = f"{zlib.crc32(b'x' * 100):08x}" * 5
    reported: list[int] = []
    chunk_digests.copy(source, target, digests, lambda: reported.append(target.stat().st_size))
    assert reported == [200, 400]
    assert target.read_bytes() == source.read_bytes()
