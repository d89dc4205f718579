"""Files for a GPU host without Helm: ``python3 -m tests.bench pack FOLDER [VISIT ...]``.

FOLDER gets the rendered manifests of the lines of ``visits.yaml`` that go through the launcher, and
``sources`` for ``learning``. Run it where Helm and the CPU training environment are; copy FOLDER to
the host as ``packed``, into the checkout that it was made from.
"""

import argparse
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scripts.demo import sources
from scripts.demo.sources import Sources
from scripts.helm import ROOT
from scripts.local.runner import training_python
from tests.bench import visit
from tests.bench.launcher import launch
from tests.bench.launcher.launch import Launch


def launches(visits: Sequence[str]) -> Iterator[Launch]:
    """Yield the launcher runs of these visits."""
    for name in visits:
        for line, words in visit.lines(name).items():
            if words[0] in visit.LAUNCHED:
                program = importlib.import_module(f"tests.bench.{visit.PROGRAMS[words[0]]}")
                given = visit.command(name, line, "TOKENIZER", "RESULTS", words)
                yield program.launch_of(program.arguments(given))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench pack")
    parser.add_argument("folder", type=Path, help="to bring to the host as packed")
    names = visit.names()
    parser.add_argument("visits", nargs="*", metavar="VISIT", help=f"{', '.join(names)}; or all")
    shown = "a variable of the pods, such as the host's LD_PRELOAD"
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=shown)
    options = parser.parse_args(words)
    if wrong := set(options.visits) - set(names):
        parser.error(f"{', '.join(sorted(wrong))} is not a visit; use {', '.join(names)}")
    env = dict(each.split("=", 1) for each in options.env)
    for each in launches(options.visits or names):
        each = replace(each, values={**each.values, "extraEnv": env})
        file = launch.packed_file(options.folder, each.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(launch.render(each), encoding="utf-8")
        print(file)
    made = Sources(root=options.folder.resolve() / "sources")
    sources.make_pairs(made)
    sources.make_model(made, training_python(ROOT))  # for its tokenizer
    return 0
