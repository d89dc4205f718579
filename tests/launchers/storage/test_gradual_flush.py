"""A large file is on the disk part by part, and each part is reported after it."""

import os
import zlib
from pathlib import Path

import pytest

from launchers.storage import chunk_digests, disk


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
