"""Outputs whose makers are killed, or race."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchers import manifest, marker, partial
from tests.launchers.producer import FILES, content

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m"


def leftovers(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.name != path.name)


def start(path: Path, version: str, pause: str = "0.004") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.launchers.producer", str(path), version, pause],
        cwd=ROOT,
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


def test_a_kill_at_any_point_leaves_whole_outputs_only(path: Path) -> None:
    chance = random.Random(3)
    seen: set[str | None] = set()
    cut = 0
    for attempt in range(24):
        version = "v1" if attempt < 8 else f"v{attempt // 4}"
        child = start(path, version)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.uniform(0, 0.11))
        child.kill()
        cut += "done" not in (child.communicate()[0] or "")
        seen.add(version_at(path) if not partial.aside(path).exists() else "between")
    assert cut >= 10
    last = start(path, "last")
    assert last.communicate(timeout=30)[0].split()[-2] == "done"
    assert version_at(path) == "last"
    assert leftovers(path) == []


def test_of_two_producers_one_makes_and_the_other_finds_it(path: Path) -> None:
    children = [start(path, "v1", "0.03") for _ in range(2)]
    ends = [child.communicate(timeout=30)[0].strip().splitlines()[-1] for child in children]
    assert sorted(end.rpartition(" ")[0] for end in ends) == ["done", "up to date"]
    assert len({end.rpartition(" ")[2] for end in ends}) == 1
