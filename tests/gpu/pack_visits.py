"""Render the launcher runs of ``visits.yaml`` for a GPU host without Helm.

Run ``python -m tests.gpu.pack_visits FOLDER [VISIT ...] [--env NAME=VALUE]`` where Helm is; copy
FOLDER to the host as ``packed``, into the checkout that it was made from.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.gpu import bench_visit
from tests.gpu.launcher import launch
from tests.gpu.launcher.launch import Launch


def launches(visits: Sequence[str]) -> Iterator[Launch]:
    """Yield the launcher runs of these visits.

    Raises:
        ValueError: there is no such visit.
    """
    for visit in visits:
        for line, words in bench_visit.lines(visit).items():
            program = bench_visit.PROGRAMS.get(words[0])
            if program is not None:
                given = bench_visit.command(visit, line, "TOKENIZER", "RESULTS", words)
                yield from program.launches(program.arguments(given))


def main() -> None:
    """Write the manifests."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.pack_visits")
    parser.add_argument("folder", type=Path, help="to bring to the host as packed")
    names = bench_visit.names()
    parser.add_argument("visits", nargs="*", metavar="VISIT", help=f"{', '.join(names)}; or all")
    shown = "a variable of the pods, such as the host's LD_PRELOAD"
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=shown)
    options = parser.parse_args()
    if wrong := set(options.visits) - set(names):
        parser.error(f"{', '.join(sorted(wrong))} is not a visit; use {', '.join(names)}")
    env = dict(each.split("=", 1) for each in options.env)
    for each in launches(options.visits or names):
        each = replace(each, values={**each.values, "extraEnv": env})
        file = launch.packed_file(options.folder, each.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(launch.render(each), encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
