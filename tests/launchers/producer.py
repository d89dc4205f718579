"""Makes one output in slow, small steps: ``producer.py <path> <version> [pause]``; to be killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from launchers import logs
from launchers.output import produce

FILES = 12


def content(version: str, number: int) -> str:
    """Return what file ``number`` holds; of one size, so that only its digest tells."""
    return f"{version} {number}\n" * 50


def main(path: str, version: str, pause: str = "0.004") -> None:
    """Make the output; print how."""
    logs.configure()

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
    print(outcome.state, outcome.digest, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
