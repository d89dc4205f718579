"""Gradients of one step compared with fp32: ``python3 -m tests.gpu.gradients TOKENIZER RESULTS``.

Each side of ``gradients.yaml`` runs one step of the same small Qwen3-MoE on the same 24 pairs, all
sides at once, and writes the gradients that its optimizer is given (the plugin
``swift_gradients_probe.py``). The loss of every side is the mean over the 24 pairs of DPO's loss
plus ``rpo_alpha`` times the mean loss of the chosen answer's tokens: ours has packs with equal pair
weights, upstream one pair per microbatch. ``exact`` is upstream in fp32; ``judge.py`` states the
test. RESULTS/gradients-<N>gpu.json has the errors of each parameter; exit code 1 if the test fails.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from launchers.exits import LaunchError
from launchers.plan import model_config
from tests.gpu import host, record, side_by_side
from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench.shared import PLUGINS, Bench
from tests.gpu.gradients import data, errors, judge, plan
from tests.gpu.model import random_model
from tests.gpu.variants import command as variants_command
from tests.gpu.variants.plan import Variant

HOME = Path("/data/gradients")
PROBE = PLUGINS / "swift_gradients_probe.py"
TAIL = 2500
"""Characters of a failed run's log in the result."""


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    return variants_command.parser("gradients", HOME, total=240).parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run and judge; return 1 if the test fails, 2 if no side can start."""
    options = arguments(words)
    about = host.about()
    try:
        sides = plan.read(len(about["gpus"]), list(filter(None, options.only.split(","))))
        bench = setting(options, about["gpus"])
        plan.refuse(bench, sides)
    except (LaunchError, ValueError, OSError) as error:
        print(f"gradients: {error}", file=sys.stderr)
        return 2
    data.prepare(bench, options.tokenizer)
    cores = len(os.sched_getaffinity(0))
    ended = side_by_side.run(
        [
            variants_command.command(bench, side, number, options, [PROBE])
            for number, side in enumerate(sides)
        ],
        at_once=options.at_once or variants_command.at_once(cores, bench.gpus),
        limit=options.limit,
        total=options.total,
    )
    result = {**about, "gpus_used": bench.gpus, **conclude(bench, sides, ended)}
    record.write(options.results / f"gradients-{bench.gpus}gpu.json", result)
    print(judge.table(result["judged"]))
    return 0 if result["judged"]["passed"] else 1


def setting(options: argparse.Namespace, seen: Sequence[str]) -> Bench:
    """Return the settings that all sides share.

    Raises:
        ValueError: the GPU model is unknown.
        OSError: there is no tokenizer.
    """
    sizes = model_config.parse_config(random_model.config(data.model_config(options.tokenizer)))
    return replace(variants_command.setting(options, seen), model_config=sizes, steps=plan.STEPS)


def conclude(
    bench: Bench, sides: Sequence[Variant], ended: Mapping[str, side_by_side.Ended]
) -> dict[str, Any]:
    """Return the record: sides, the errors of their gradients, and the verdict."""
    runs = {each.name: _seen(bench, each, ended[each.name]) for each in sides}
    compared: dict[str, Any] = {}
    try:
        exact = errors.read(variants_command.folder_of(bench, _side(sides, judge.EXACT)))
    except (ValueError, OSError) as error:
        if judge.EXACT in runs:
            runs[judge.EXACT]["why"] = str(error)
        exact = {}
    for side in sides if exact else ():
        try:
            own = errors.read(variants_command.folder_of(bench, side))
            if side.name != judge.EXACT:
                compared[side.name] = errors.compare(own, exact)
        except (ValueError, OSError) as error:
            runs[side.name]["why"] = str(error)
    return {
        "model": asdict(data.MODEL_CONFIG) | {"vocab_size": bench.model_config.vocab},
        "pairs": [asdict(each) for each in data.CLASSES],
        "bounds": {"close": judge.CLOSE, "near": judge.NEAR, "scale": judge.SCALE},
        "judged": judge.judge(runs, compared),
        "runs": runs,
        "compared": {name: errors.columns(each) for name, each in compared.items()},
    }


def _side(sides: Sequence[Variant], name: str) -> Variant:
    """Return a side.

    Raises:
        ValueError: it is not among them.
    """
    for side in sides:
        if side.name == name:
            return side
    raise ValueError(f"there is no side {name}")


def _seen(bench: Bench, side: Variant, end: side_by_side.Ended) -> dict[str, Any]:
    folder = variants_command.folder_of(bench, side)
    log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    parsed = bench_profiles.recipe(side.profile.values(), bench.own_flags)
    return {
        "changes": dict(side.profile.changes),
        "kept": None if side.profile.kept is None else list(side.profile.kept),
        "features": side.profile.features(parsed),
        "flags": parsed.args,
        "ended": f"{end.why} {end.code}",
        "seconds": end.seconds,
        "why": "",
        "ranks": errors.ranks(folder),
        "tail": "" if end.code == 0 else log[-TAIL:],
    }
