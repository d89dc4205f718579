"""Plan of an ablation: variants and starts, parsed and validated from a file.

A file has ``baseline``, ``variants`` (switched while the model runs) and ``starts`` (changes of
flags or values, one start each). The baseline runs first and last, which shows drift; profiled
steps run after all timed steps, since the profiler slows the following ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.gpu.ablation import fields

BASELINE, AGAIN, END = "baseline", "baseline again", "end"
State = Mapping[str, Any]
"""State of the switched model: maps under ``config``, ``modules``, ``ddp`` and ``env``, words
under ``gc`` and ``pin``, ``tf32``."""
MAPS = {
    "config": fields.CONFIG,
    "modules": fields.MODULES,
    "ddp": fields.DDP,
    "env": fields.ENV,
}
WORDS: Mapping[str, tuple[Any, ...]] = {
    "gc": fields.GC,
    "pin": fields.PIN,
    "tf32": (True, False),
}
_LAYERS = "recompute_num_layers"
_VARIANT = {"why", "keep", "profile", "trace", "steps", "warm_up", *MAPS, *WORDS}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One measured state of the running model."""

    name: str
    why: str = ""
    state: State = field(default_factory=dict)
    keep: bool = False
    """True if the variants after it are applied on top of it."""
    profile: bool = False
    """True if one more step runs under the kernel profiler."""
    trace: bool = False
    """True if one more step of rank 0 is written as a trace with CPU operators."""
    steps: int = 0
    """Measured steps; 0: the number of the command line."""
    warm_up: int = 0


@dataclass(frozen=True, kw_only=True)
class Start:
    """Flags or paths of values that need their own start."""

    name: str
    why: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Selected baseline, variants and starts."""

    baseline: Variant
    variants: tuple[Variant, ...]
    starts: tuple[Start, ...]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive steps in one state."""

    name: str
    role: str
    """``time``, ``profile``, ``trace`` or ``end``."""
    state: State
    first: int
    """Its first step; training counts from 1."""
    warm_up: int
    steps: int
    """Measured steps, after the warm-up."""

    @property
    def last(self) -> int:
        """Return its last step."""
        return self.first + self.warm_up + self.steps - 1


def read(file: Path, layers: int) -> Choice:
    """Read a file of variants.

    Args:
        file: like ``ablations.yaml``.
        layers: of a pipeline stage; ``recompute_num_layers`` below 1 is a fraction of them.

    Raises:
        ValueError: an entry is not possible; the message lists what is.
        OSError: it can't be read.
    """
    document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    _known(document, {"baseline", "variants", "starts"}, str(file))
    variants = document.get("variants") or {}
    starts = document.get("starts") or {}
    names = [BASELINE, AGAIN, END, *variants, *starts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{file}: {', '.join(sorted(twice))} is given twice; rename one")
    return Choice(
        baseline=_variant(BASELINE, document.get("baseline") or {}, layers),
        variants=tuple(_variant(name, each or {}, layers) for name, each in variants.items()),
        starts=tuple(_start(name, each or {}) for name, each in starts.items()),
    )


def _known(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{where}: {name} is not known; write {', '.join(sorted(known))}")


def _variant(name: str, given: Mapping[str, Any], layers: int) -> Variant:
    _known(given, _VARIANT, name)
    _refuse(name, given)
    state = {kind: given[kind] for kind in (*MAPS, *WORDS) if kind in given}
    if "env" in state:
        state["env"] = {key: str(value) for key, value in state["env"].items()}
    count = state.get("config", {}).get(_LAYERS)
    if count is not None and count < 1:
        state["config"] = {**state["config"], _LAYERS: max(1, round(count * layers))}
    rest = {key: value for key, value in given.items() if key not in state}
    return Variant(name=name, state=state, **rest)


def _refuse(name: str, given: Mapping[str, Any]) -> None:
    for kind, table in MAPS.items():
        for key in given.get(kind) or {}:
            if key not in table:
                raise ValueError(
                    f"{name}: {kind}.{key} is not known to be read while the model runs; write "
                    f"{', '.join(table)}, or make it one of `starts`"
                )
    for word, allowed in WORDS.items():
        if word in given and given[word] not in allowed:
            words = ", ".join(map(str, allowed))
            raise ValueError(f"{name}: {word} is {given[word]}; write {words}")


def _start(name: str, given: Mapping[str, Any]) -> Start:
    _known(given, {"why", "changes"}, name)
    if not given.get("changes"):
        raise ValueError(f"{name}: a start without changes; write changes: {{flag: value}}")
    return Start(name=name, why=given.get("why", ""), changes=given["changes"])


def over(below: State, above: State) -> dict[str, Any]:
    """Lay a state over another.

    >>> over({"config": {"a": 1, "b": 2}, "gc": "on"}, {"config": {"b": 3}})
    {'config': {'a': 1, 'b': 3}, 'gc': 'on'}
    """
    merged = {**below, **above}
    for kind in MAPS:
        if kind in merged:
            merged[kind] = {**below.get(kind, {}), **above.get(kind, {})}
    return merged
