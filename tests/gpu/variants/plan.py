"""The variants of ``variants.yaml``, validated before GPU time is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench.profiles import Profile
from tests.gpu.bench.shared import Bench

FILE = Path(__file__).with_name("variants.yaml")
BASE = "base"
KEYS = ("flags", "gpus", "own_kernels")
STEPS = 2


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One training variant."""

    profile: Profile
    own_kernels: str = ""
    """Reason why its training step may run other kernels than the reference pass."""

    @property
    def name(self) -> str:
        """Return its name in ``variants.yaml``."""
        return self.profile.name


def read(gpus: int, only: Sequence[str] = (), file: Path = FILE) -> list[Variant]:
    """Return the variants that a host can run, the base first.

    Args:
        gpus: number of GPUs of the host.
        only: their names; all by default.
        file: like ``variants.yaml``.

    Raises:
        ValueError: a name, a key or the number of GPUs is unknown.
    """
    plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    lines: dict[str, dict[str, Any]] = plan["variants"]
    if gpus not in plan["gpus"]:
        known = ", ".join(map(str, plan["gpus"]))
        raise ValueError(f"{file.name} is for hosts of {known} GPUs, and this one has {gpus}")
    for name, line in lines.items():
        if unknown := sorted(line.keys() - set(KEYS)):
            raise ValueError(f"{file.name}: {name}.{unknown[0]} is not one of {', '.join(KEYS)}")
    if unknown := sorted(set(only) - lines.keys()):
        raise ValueError(f"{file.name} has no variant {unknown[0]}; it has {', '.join(lines)}")
    names = [n for n, line in lines.items() if gpus in line.get("gpus", plan["gpus"])]
    if lacking := sorted(set(only) - set(names)):
        raise ValueError(f"{lacking[0]} can't run on {gpus} GPUs; leave it out")
    wanted = [n for n in names if n == BASE or not only or n in only]
    files = tuple(str((file.parent / each).resolve()) for each in plan["files"])
    under = {**plan["shared"], **plan["gpus"][gpus]}
    return [_variant(name, lines[name], files, under) for name in wanted]


def _variant(
    name: str, line: Mapping[str, Any], files: tuple[str, ...], under: Mapping[str, Any]
) -> Variant:
    changes = {**under, **line.get("flags", {})}
    profile = Profile(name=name, files=files, changes=changes)
    return Variant(profile=profile, own_kernels=line.get("own_kernels", ""))


def refuse(bench: Bench, variants: Sequence[Variant]) -> None:
    """Refuse variants that cannot run, drop tokens or force balanced routing.

    Raises:
        LaunchError: a variant's flags.
        ValueError: its layout does not fit the GPUs, or tokens would be dropped.
    """
    for variant in variants:
        parsed = bench_profiles.recipe(variant.profile.values(), bench.own_flags)
        bench_profiles.refuse(parsed, bench.model_config, bench.gpus)
        extra = parsed.args.get("megatron_extra_kwargs", {})
        given = {*parsed.args, *(extra if isinstance(extra, dict) else ())}
        if wrong := given & {"moe_expert_capacity_factor", "moe_router_force_load_balancing"}:
            raise ValueError(f"{variant.name}: {', '.join(wrong)} would hide what is to be shown")
