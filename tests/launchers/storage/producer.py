"""Produce one output in slow, small steps: ``producer.py <path> <version> [pause] [die_at]``.

Prints the number of file system operations when it ends; with ``die_at`` it is killed before that
operation.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from launchers import logs
from launchers.storage.output import produce

FILES = 12


def content(version: str, number: int) -> str:
    """Return the content of file ``number``; all have one size, so only the digest differs."""
    return f"{version} {number}\n" * 50


def kill_at(path: Path, die_at: int) -> Callable[[], int]:
    """Count operations on files around ``path``; SIGKILL before number ``die_at`` (0: never)."""
    place, numbers, last = str(path.parent), itertools.count(1), [0]

    def operation(event: str, words: tuple[object, ...]) -> None:
        if not event.startswith(("open", "os.", "shutil.")):
            return
        if not any(isinstance(w, str | Path) and str(w).startswith(place) for w in words):
            return
        number = last[0] = next(numbers)
        if number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(operation)
    return lambda: last[0]


def main(path: str, version: str, pause: str = "0.004", die_at: str = "0") -> None:
    """Produce the output; print its state."""
    logs.configure()
    count = kill_at(Path(path), int(die_at))

    def make(folder: Path) -> None:
        for number in range(FILES):
            file = folder / "sub" / f"{number}.txt"
            file.parent.mkdir(exist_ok=True)
            if file.exists() and file.read_text() == content(version, number):
                continue
            with file.open("w") as handle:
                for line in content(version, number).splitlines(keepends=True):
                    handle.write(line)
            time.sleep(float(pause))

    print("begin", flush=True)
    outcome = produce(
        "test", "x", Path(path), {"version": version}, make, skip=False, holder="producer"
    )
    print(count(), outcome.state, outcome.digest, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
