"""The runner of all measurements: ``python3 -m tests.bench PROGRAM ...``.

Programs that measure take ``TOKENIZER RESULTS`` first and write into the file of the visit in
RESULTS (``scripts/dev/results.py``); ``PROGRAM --help`` lists the other arguments.
"""

import importlib
import sys

from tests.bench import host

PROGRAMS = {
    "visit": ("visit", "lines of visits.yaml, one after the other"),
    "pack": ("pack", "what a host without Helm needs"),
    "speed": ("speed.command", "speed and memory of profiles; --trace: one step's kernels"),
    "backends": ("backends", "loss and memory of both trainers on a dense model, against plan"),
    "gradients": ("gradients.command", "gradients of one step compared with upstream's in fp32"),
    "learning": ("learning.command", "a small model trained with and without our plugins"),
    "matrix": ("launcher.matrix", "faults one after the other; times of restarts"),
    "saves": ("launcher.saves", "stops of training by saves, and an exact resume"),
    "rehearse": ("launcher.rehearse", "the launcher's rehearsal"),
    "preflight": ("preflight.command", "the checks before training, with injected faults"),
    "headlines": ("headlines", "figures.csv, from all results; no GPU"),
}
"""Module, whose ``main`` takes the words after the name, and what it does."""


def main(words: list[str]) -> int:
    """Run one program; return its exit code, or 2 for an unknown one."""
    name, *given = words or [""]
    if name not in PROGRAMS:
        print("usage: python3 -m tests.bench PROGRAM ...", file=sys.stderr)
        print(*(f"  {each:12} {does}" for each, (_, does) in PROGRAMS.items()), sep="\n")
        return 2
    module = importlib.import_module(f"tests.bench.{PROGRAMS[name][0]}")
    code: int = module.main(given)
    return code


if __name__ == "__main__":
    sys.exit(host.run(lambda: main(sys.argv[1:])))
