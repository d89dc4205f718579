"""The sides of ``learning.yaml`` and their runs, validated before GPU time is spent."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.bench import host, side_by_side
from tests.bench.learning import data
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import ROOT, Profile
from tests.bench.speed.shared import Bench

FILE = Path(__file__).with_name("learning.yaml")
KEYS = ("features", "flags", "package")


@dataclass(frozen=True, kw_only=True)
class Run:
    side: str
    seed: int
    profile: Profile
    number: int

    @property
    def name(self) -> str:
        return f"{self.side}-{self.seed}"


def gpus_of_run(host_gpus: int, file: Path = FILE) -> int:
    """Return the GPUs of a run: the largest number of ``gpus`` that the host has."""
    numbers: dict[int, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["gpus"]
    fitting = [number for number in numbers if number <= host_gpus]
    if not fitting:
        raise ValueError(f"this host has {host_gpus} GPUs and a run needs {min(numbers)}")
    return max(fitting)


def read(
    seeds: Sequence[int],
    gpus: int,
    only: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    file: Path = FILE,
) -> list[Run]:
    """Return the runs, all sides of a seed together, in the order in which they start.

    A side whose ``package`` is not installed is left out.
    Flags of ``gpus`` win over all others, those of a side over ``changes``.
    """
    plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    if gpus not in plan["gpus"]:
        known = " or ".join(map(str, plan["gpus"]))
        raise ValueError(f"{file.name} is for runs of {known} GPUs, and {gpus} were given")
    plan["shared"] |= changes or {}
    sides: dict[str, dict[str, Any]] = plan["sides"]
    if unknown := sorted(set(only) - sides.keys()):
        raise ValueError(f"{file.name} has no side {unknown[0]}; it has {', '.join(sides)}")
    for name, side in sides.items():
        if wrong := sorted(side.keys() - set(KEYS)):
            raise ValueError(f"{file.name}: {name}.{wrong[0]} is not one of {', '.join(KEYS)}")
    files = tuple(str((file.parent / each).resolve()) for each in plan["files"])
    wanted = [
        name
        for name, side in sides.items()
        if (not only or name in only) and ("package" not in side or host.version(side["package"]))
    ]
    pairs = [(name, seed) for seed in seeds for name in wanted]
    return [
        Run(side=name, seed=seed, number=number, profile=_profile(plan, files, name, seed, gpus))
        for number, (name, seed) in enumerate(pairs)
    ]


def _profile(
    plan: dict[str, Any], files: tuple[str, ...], name: str, seed: int, gpus: int
) -> Profile:
    side = plan["sides"][name]
    changes = {**plan["shared"], "seed": seed, **side.get("flags", {}), **plan["gpus"][gpus]}
    kept = bench_profiles.kept(side["features"]) if "features" in side else None
    return Profile(name=f"{name}-{seed}", files=files, changes=changes, kept=kept)


def refuse(bench: Bench, runs: Sequence[Run]) -> None:
    """Refuse runs that cannot work."""
    for run in runs:
        parsed = bench_profiles.recipe(run.profile.values(), bench.own_flags)
        bench_profiles.refuse(parsed, bench.model_config, bench.gpus)
        bench_profiles.refuse_kept(run.profile, parsed)


def folder_of(bench: Bench, run: Run) -> Path:
    """Return a run's folder, in its own workspace, so that runs share no store."""
    return bench.home / run.name / "runs" / run.name


def command(
    bench: Bench, run: Run, gpus: Sequence[int], caches: Path, held_out: Path
) -> side_by_side.Command:
    """Return the command of a run: training as the launcher builds it, then its score."""
    files, folder = data.of_seed(bench.home, run.seed), folder_of(bench, run)
    own = replace(bench, model=files.model, data=files.pairs)
    train, env = bench_run.alone(
        own,
        run.profile,
        folder,
        number=run.number,
        caches=caches,
        over={"save_steps": str(own.iterations)},
    )
    export = folder / "out" / f"checkpoint-{own.iterations}"
    score = scoring(run, held_out, files.model, export, folder / "score.json")
    env |= {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
    words = ["bash", "-c", f"cd {ROOT} && {shlex.join(train)} && {shlex.join(score)}"]
    return side_by_side.Command(name=run.name, words=words, env=env, log=folder / "log")


def scoring(run: Run, held_out: Path, base: Path, export: Path, out: Path) -> list[str]:
    """Return the command that scores a checkpoint.

    Its beta is the profile's, even if a side trains with another: that side's margin must differ.
    """
    shipped = Profile(name=run.name, files=run.profile.files, changes={})
    beta = bench_profiles.recipe(shipped.values(), {}).arg("beta", "0.1")
    module = [sys.executable, "-m", "tests.bench.learning.score"]
    return [*module, *map(str, (held_out, base, export)), beta, str(out)]


def gpus_of(number: int, host_gpus: int, gpus: int) -> list[int]:
    """Return the GPUs of a run: the runs take turns over the host's groups of ``gpus`` GPUs.

    >>> gpus_of(0, 4, 2), gpus_of(1, 4, 2), gpus_of(2, 4, 2), gpus_of(1, 2, 2), gpus_of(1, 1, 1)
    ([0, 1], [2, 3], [0, 1], [0, 1], [0])
    """
    first = number % (host_gpus // gpus) * gpus
    return list(range(first, first + gpus))
