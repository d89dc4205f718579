"""Outputs whose makers are killed, or race."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from launchers.storage import manifest, marker, output
from tests.launchers import warm
from tests.launchers.pods import PYTHONPATH, ROOT
from tests.launchers.storage.producer import FILES, content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m"


def leftovers(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.name != path.name)


def start(path: Path, version: str, pause: str, die_at: str = "0") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            warm.launcher(PYTHONPATH),
            "-m",
            "tests.launchers.storage.producer",
            str(path),
            version,
            pause,
            die_at,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
    )


def version_at(path: Path) -> str | None:
    """Return which version is whole under the final name; fails when anything else is there."""
    if not path.exists():
        return None
    there = marker.read(path)
    assert there is not None, "no marker under the final name"
    assert manifest.verify(path, there.manifest, full=True) == []
    version = str(there.inputs["version"])
    texts = [(path / "sub" / f"{n}.txt").read_text() for n in range(FILES)]
    assert texts == [content(version, n) for n in range(FILES)]
    return version


def finish(path: Path, version: str) -> list[str]:
    """Make the output undisturbed; return its operations' number, its state and its digest."""
    child = start(path, version, "0")
    last = child.communicate(timeout=60)[0].strip().splitlines()[-1]
    assert version_at(path) == version
    # a kill between writing a claim and linking it leaves that claim, some bytes that block no one
    assert [n for n in leftovers(path) if not n.startswith(".m.lock.")] == []
    number, _, rest = last.partition(" ")
    state, _, digest = rest.rpartition(" ")
    return [number, state, digest]


def test_a_kill_at_any_point_leaves_whole_outputs_only(path: Path) -> None:
    finish(path, "first")
    before, steps = "second", int(finish(path, "second")[0])
    seen = set()
    half = steps // 2  # the files are written one like the other before, and put in place after
    # the last ones again from a clean folder: what an earlier kill has left shifts their numbers
    again = range(steps - 16, steps + 1)
    for number, point in enumerate((*range(1, half, 4), *range(half, steps + 1), *again)):
        is_again = number >= len(range(1, half, 4)) + len(range(half, steps + 1))
        if is_again:
            before = f"c{point}"
            finish(path, before)
        version = f"v{point}"
        child = start(path, version, "0", str(point))
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        if path.exists():
            there = version_at(path)
            seen.add("new" if there == version else "old")
        else:  # the older one is aside, and the newer one not under its name yet
            there = version_at(output.replaced(path))
            assert version_at(output.partial_path(path)) == version
            seen.add("between")
        assert there in (before, version)
        before = str(there)
        if point % 4 == 0 and not is_again:
            assert finish(path, version)[1] in ("done", "up to date")
            before = version
    assert seen == {"old", "between", "new"}
    assert finish(path, "last")[1] == "done"


def test_of_two_producers_one_makes_and_the_other_finds_it(path: Path) -> None:
    children = [start(path, "v1", "0.03") for _ in range(2)]
    ends = [child.communicate(timeout=30)[0].strip().splitlines()[-1] for child in children]
    states = sorted(end.partition(" ")[2].rpartition(" ")[0] for end in ends)
    assert states == ["done", "up to date"]
    assert len({end.rpartition(" ")[2] for end in ends}) == 1
