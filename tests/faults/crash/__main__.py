"""``python -m tests.faults.crash [--points N] [--seed N] [--without-fsync] [--results FILE]``.

Runs each scenario once, then crashes it at each of its events in several ways, and checks what a
start finds. Ends with 1 if a promise was broken. With ``--without-fsync`` the code looks as if it
never flushed: promises must break, which shows that the search finds what it looks for.
"""

import argparse
import logging
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from launchers.storage import lock, lock_owner
from launchers.storage.lock import Lock
from launchers.storage.lock_owner import LockOwner
from scripts.dev.results import text
from tests.faults.crash import disk
from tests.faults.crash.disk import Disk
from tests.faults.crash.recorder import recording
from tests.faults.crash.scenarios import ALL, Scenario

POINTS = 12_000
"""Crash points by default, over all scenarios."""
EXAMPLES = 5
STALE_SECONDS = 5.0
"""Instead of the default 60: a lock that blocks the next start for so long breaks a promise."""


@dataclass(kw_only=True)
class Result:
    scenario: str
    events: int = 0
    points: int = 0
    """Pairs of an event and a variant of what reached the disk."""
    broken: int = 0
    examples: list[str] = field(default_factory=list)
    seconds: float = 0.0


def crash(scenario: Scenario, points: int, seed: int, root: Path, *, ignores_fsync: bool) -> Result:
    """Crash a scenario at each event, in as many ways as make up ``points``."""
    begun, folder = time.monotonic(), root / "run"
    _quicken_locks(STALE_SECONDS)
    folder.mkdir()
    with (
        recording(folder, ignores_fsync=ignores_fsync) as record,
        patch.object(lock, "this_process", _ended_process),
    ):
        scenario.run(folder, record)
    _quicken_locks(0.05 if ignores_fsync else STALE_SECONDS)
    result = Result(scenario=scenario.name, events=len(record.events))
    state = Disk(root=record.root)
    ways = -(-points // len(record.events))
    for number, event in enumerate(record.events):
        state.apply(event)
        for way, variant in enumerate(disk.variants(seed * 10_007 + number, ways)[:ways]):
            target = root / "crashed"
            target.mkdir()
            disk.write(state, variant, target)
            try:
                scenario.check(target, state.promises)
            except Exception as error:  # what a start would meet: none is allowed
                result.broken += 1
                if len(result.examples) < EXAMPLES:
                    result.examples.append(f"event {number}, way {way}: {error!r}")
            result.points += 1
            shutil.rmtree(target)
    result.seconds = round(time.monotonic() - begun, 1)
    shutil.rmtree(folder)
    return result


def _quicken_locks(stale: float) -> None:
    """Shorten the time after which the owner of a lock counts as dead."""
    assert Lock.__init__.__kwdefaults__ is not None
    Lock.__init__.__kwdefaults__.update(stale=stale, poll=0.002)


def _ended_process(holder: str) -> LockOwner:
    """Describe this process as one that has ended since: its start differs."""
    return replace(lock_owner.this_process(holder), started="0")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.faults.crash")
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-fsync", action="store_true")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(words)
    logging.disable(logging.CRITICAL)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        each_points = options.points // len(ALL)
        given = (each_points, options.seed, Path(root))
        results = [crash(each, *given, ignores_fsync=options.without_fsync) for each in ALL]
    sums = {
        name: sum(getattr(each, name) for each in results)
        for name in ("events", "points", "broken", "seconds")
    }
    total = Result(scenario="all", **sums)
    total.seconds = round(total.seconds, 1)
    show([*results, total])
    if options.results:
        document = {"seed": options.seed, "scenarios": [asdict(e) for e in [*results, total]]}
        options.results.write_text(text(document), encoding="utf-8")
    return 1 if total.broken else 0


def show(results: list[Result]) -> None:
    """Print the table and examples of broken promises."""
    console = Console(width=120)
    table = Table("scenario", "file operations", "crash points", "broken promises", "seconds")
    for each in results:
        counts = (each.events, each.points, each.broken, each.seconds)
        table.add_row(each.scenario, *map(str, counts))
    console.print(table)
    for each in results:
        for example in each.examples:
            console.print(f"{each.scenario}: {example}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
