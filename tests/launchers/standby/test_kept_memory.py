"""The host memory of checkpoints outlives the training processes, and ends with the launcher."""

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from launchers.standby import kept_memory
from launchers.standby.kept_memory import KeptMemory

SIZE = 1 << 20
RANK = """
import mmap, os, signal
from launchers.standby.kept_memory import open_own
descriptor = open_own(os.environ)
before = os.fstat(descriptor).st_blocks
os.ftruncate(descriptor, {size})
mmap.mmap(descriptor, {size})[:] = b"x" * {size}
print(before, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_rank(env: Mapping[str, str], local: int) -> int:
    """Fill the memory in a process that is then killed; return the blocks that it has found."""
    words = [sys.executable, "-c", RANK.format(size=SIZE)]
    inside = {**os.environ, **env, "LOCAL_RANK": str(local)}
    done = subprocess.run(words, env=inside, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return int(done.stdout)


def test_the_next_attempt_finds_the_pages_of_its_own_rank() -> None:
    with closing(KeptMemory(2)) as kept:
        assert killed_rank(kept.env, 0) == 0
        assert killed_rank(kept.env, 0) * 512 >= SIZE
        assert kept_memory.kept_bytes(kept.env) == SIZE
        assert killed_rank(kept.env, 1) == 0
        assert kept_memory.kept_bytes(kept.env) == 2 * SIZE


def test_the_memory_is_released_without_room_for_a_resume() -> None:
    with closing(KeptMemory(1)) as kept:
        killed_rank(kept.env, 0)
        kept.make_room(SIZE)
        assert kept_memory.kept_bytes(kept.env) == SIZE
        kept.make_room(SIZE - 1)
        assert kept_memory.kept_bytes(kept.env) == 0
        killed_rank(kept.env, 0)
        kept_memory.clear_own(kept.env)
        assert kept_memory.kept_bytes(kept.env) == 0


def test_a_launcher_that_may_not_make_such_files_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(name: str) -> int:
        raise PermissionError(name)

    monkeypatch.setattr(os, "memfd_create", denied)
    assert KeptMemory(2).env == {}


def test_the_memory_ends_with_the_launcher_that_keeps_it() -> None:
    kept = KeptMemory(2)
    assert held() == 2
    kept.close()
    assert (held(), kept.env, kept_memory.kept_bytes(kept.env)) == (0, {}, 0)


def held() -> int:
    """Return how many files of this kind the process holds open."""
    entries = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(kept_memory.NAME in str(entry.readlink()) for entry in entries)


@pytest.mark.parametrize("value", ["", "/proc/0/fd/0", "/proc/self/fd/999"])
def test_a_process_without_a_launchers_file_makes_its_own(value: str) -> None:
    descriptor = kept_memory.open_own({kept_memory.VARIABLE: value, "LOCAL_RANK": "0"})
    os.ftruncate(descriptor, SIZE)
    with mmap.mmap(descriptor, SIZE) as memory:
        assert memory[0] == 0
    os.close(descriptor)
