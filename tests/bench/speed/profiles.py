"""A profile of the bench: values files and flags, merged as ``helm -f A -f B`` does.

``NAME:FILE,FILE,flag=value,flag=null`` on the command line; NAME is optional. A key with a dot
is a path of the values: ``recipe.reference=precomputed``, ``extraEnv.NCCL_DEBUG=INFO``. The
launcher's own functions translate the values into flags.

``features=NAME+NAME`` installs only these features of the launcher in the training processes, and
``features=none`` none, so that upstream runs with the same flags and without our plugins;
``features=all-NAME`` leaves one out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launchers.config import recipe as recipes
from launchers.config.recipe import Recipe
from launchers.flags import equal_packs, features
from launchers.plan import training_job
from launchers.plan.model_config import ModelConfig
from launchers.plan.training_job import Training
from launchers.rules import table
from launchers.yaml_file import read_yaml

ROOT = Path(__file__).parents[3]
DEFAULTS = ROOT / "chart" / "values.yaml"
REPLACED = ("external_plugins", "callbacks", "num_train_epochs", "max_epochs", "save_strategy")
"""Flags of the user's code and data, which the bench replaces."""
FEATURES = "features"
"""Key of a profile that names the launcher's features to keep; no flag of ms-swift."""
NONE = "none"
ALL = "all"
ALL_BUT = "-"
"""Before the name of a feature that is left out."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    name: str
    files: tuple[str, ...]
    changes: Mapping[str, Any]
    """Flags or paths of values that override the files; None removes one."""
    kept: tuple[str, ...] | None = None
    """The launcher's features to install, or after ``ALL_BUT`` those to leave out; None for those
    that the recipe asks for."""

    def features(self, parsed: Recipe) -> list[str]:
        """Return the launcher's features that the training processes install, in their order."""
        if self.kept is None:
            return features.names(parsed, on_cpu=False)
        if left_out := [name[1:] for name in self.kept if name.startswith(ALL_BUT)]:
            names = features.names(parsed, on_cpu=False)
            return [name for name in names if name not in left_out]
        return [each.name for each in features.FEATURES if each.name in self.kept]

    def values(self) -> dict[str, Any]:
        named = [path for file in self.files for path in below(Path(file))]
        paths = dict.fromkeys([DEFAULTS, *named])
        layers = [read_yaml(path) or {} for path in paths]
        return compose([*layers, *(layer(key, value) for key, value in self.changes.items())])


def below(file: Path) -> list[Path]:
    """Return the files that a values file is added to, by its first comment, and itself.

    >>> [path.stem for path in below(ROOT / "tests" / "bench" / "baselines" / "seed.yaml")]
    ['a100-2node', 'seed-2node', 'seed']
    """
    comment = file.read_text(encoding="utf-8").partition("\n\n")[0]
    return [ROOT / name for name in re.findall(r"-f (\S+\.yaml)", comment)] or [file]


def layer(key: str, value: Any) -> dict[str, Any]:
    """Return values with one key, a flag or a path.

    >>> layer("lr", 1), layer("recipe.reference", "online")
    ({'recipe': {'args': {'lr': 1}}}, {'recipe': {'reference': 'online'}})
    """
    path = key.split(".") if "." in key else ["recipe", "args", key]
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def parse(text: str) -> Profile:
    """Parse a profile of the command line.

    >>> parse("seed:a.yaml,b.yaml,global_batch_size=4").files
    ('a.yaml', 'b.yaml')
    >>> parse("values/hardware/h200-4.yaml,rpo_alpha=null").name
    'h200-4,rpo_alpha=null'
    >>> parse("bare:a.yaml,features=none").kept
    ()
    """
    first, _, rest = text.partition(":")
    given = rest if rest else first
    parts = given.split(",")
    files = tuple(part for part in parts if "=" not in part)
    if not files or not all(files):
        how = "write NAME:FILE[,FILE][,flag=value]"
        raise ValueError(f"profile {text!r} names no values file; {how}")
    written = [part for part in parts if "=" in part]
    changes = dict(change(part) for part in written)
    features_kept = kept(changes.pop(FEATURES)) if FEATURES in changes else None
    own = [Path(files[-1]).stem, *written]
    name = first if rest else ",".join(own)
    return Profile(name=name, files=files, changes=changes, kept=features_kept)


def change(text: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE.

    >>> change("rpo_alpha=null"), change("recipe.swiftVersion=4.6.0")
    (('rpo_alpha', None), ('recipe.swiftVersion', '4.6.0'))
    """
    key, _, value = text.partition("=")
    return key, yaml.safe_load(value)


def kept(text: Any) -> tuple[str, ...]:
    """Return the names of ``features=``.

    >>> kept("none"), kept("chunked_adam+fused_norm")
    ((), ('chunked_adam', 'fused_norm'))
    >>> kept("all-fused_norm")
    ('-fused_norm',)
    """
    first, *left_out = str(text).split(ALL_BUT)
    is_most = first == ALL and bool(left_out)
    found = () if text == NONE else tuple(left_out if is_most else str(text).split("+"))
    known = [each.name for each in features.FEATURES]
    if unknown := sorted(set(found) - set(known)):
        raise ValueError(
            f"{FEATURES}={text}: {unknown[0]} is not a feature; write {NONE}, or "
            f"{', '.join(known)} with + between, or {ALL}{ALL_BUT}NAME"
        )
    return tuple(ALL_BUT + name for name in found) if is_most else found


def compose(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge values as Helm does: maps merge, later values win, lists are replaced, null removes.

    >>> compose([{"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": [3]}}])
    {'a': {'c': 2, 'd': [3]}}
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if value is None:
                merged.pop(key, None)
            elif isinstance(value, Mapping):
                under = merged.get(key)
                merged[key] = compose([under if isinstance(under, Mapping) else {}, value])
            else:
                merged[key] = value
    return merged


def recipe(values: Mapping[str, Any], own: Mapping[str, Any]) -> Recipe:
    """Return the recipe of merged values, with the bench's model and data.

    ``own``: flags of the bench: steps, saving, logging.
    """
    given = {key: value for key, value in values["recipe"].items() if key in recipes.KEYS}
    kept = {k: v for k, v in given.get("args", {}).items() if k not in REPLACED}
    args = {"model_type": "qwen3_moe", **kept, **own}
    return recipes.parse({**given, "model": "file:///random", "dataset": ["pairs"], "args": args})


def job(parsed: Recipe, gpus: int) -> Training:
    """Return the job on one host."""
    return training_job.parse(parsed, nodes=1, gpus_per_node=gpus)


def refuse(parsed: Recipe, model: ModelConfig, gpus: int) -> None:
    """Refuse a layout that does not fit the model or the GPUs, by the launcher's rules."""
    context = table.Context.of(parsed, model_config=model, nodes=1, gpus_per_node=gpus)
    if broken := table.check(parsed.args, context):
        raise ValueError("\n".join(map(str, broken)))


def refuse_kept(profile: Profile, parsed: Recipe) -> None:
    """Refuse a profile whose flags need a feature that it does not install."""
    if profile.kept is None:
        return
    needed = {"reference": parsed.reference == "precomputed"}
    needed |= dict.fromkeys(("equal_packs", "rank_order"), equal_packs.wanted(parsed))
    remedy = {
        "reference": "recipe.reference=online",
        **dict.fromkeys(("equal_packs", "rank_order"), f"{equal_packs.DISPATCHER}=alltoall"),
    }
    for name, is_needed in needed.items():
        if is_needed and name not in profile.features(parsed):
            raise ValueError(
                f"{profile.name}: its flags need the feature {name}, which {FEATURES} leaves out; "
                f"keep it, or write {remedy[name]}"
            )


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the plain variables of ``extraEnv``, formatted as by the chart.

    >>> environment({"extraEnv": {"A": 1, "B": True, "C": {"valueFrom": {}}}})
    {'A': '1', 'B': 'true'}
    """
    plain = {k: v for k, v in values.get("extraEnv", {}).items() if not isinstance(v, Mapping)}
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in plain.items()}
