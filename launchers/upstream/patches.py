"""Patches of upstream, and whether each may be installed on the installed sources.

A patch is installed in the training process only on sources that were read (``digests.json``). On
an unknown source it is refused or left out, by its ``effect``, unless the user accepts it or this
installation has proved it (``proved.py``). ``patches.yaml`` lists the patches.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.upstream import proved, source
from launchers.upstream.versions import parse_version

FILE = Path(__file__).with_name("digests.json")
Digests = dict[str, dict[str, dict[str, dict[str, str]]]]
"""By distribution, module and qualified name: the releases that were read, by the first ``SHORT``
digits of the SHA-256 of the function's source; none stand for releases that do not have it."""
SHORT = 16
"""64 bits tell sources apart, and digests cannot be compressed in the chart's archive."""
SOURCES: Digests = json.loads(FILE.read_text(encoding="utf-8"))
ACCEPT = "DPO_ACCEPT_PATCHES"
"""Environment variable: names of patches, separated by commas, to install on an unknown source."""
Effect = Literal["numbers", "required", "speed"]
"""``numbers``: it changes results, which could be wrong with no error. ``required``: results do not
change, but other parts of the run rely on it. ``speed``: it only saves time or memory."""
State = Literal["installed", "proved", "accepted", "not needed", "stepped aside", "refused"]


@dataclass(frozen=True)
class Function:
    """A function or class of upstream."""

    package: str
    module: str
    name: str
    """Its qualified name in the module."""

    @property
    def place(self) -> str:
        """Return its full name, e.g. ``swift.trainers.base:Trainer.step``."""
        return f"{self.module}:{self.name}"

    @property
    def read(self) -> Mapping[str, str]:
        """Return the releases that were read, by the short digest of the source."""
        return SOURCES[self.package].get(self.module, {}).get(self.name, {})


_PACKAGE = {
    module.partition(".")[0]: package for package, modules in SOURCES.items() for module in modules
}
"""The distribution of each top-level module of which functions were read."""


def functions(scope: str, names: str) -> tuple[Function, ...]:
    """Return functions of one module or class.

    ``scope`` is a module, or a class as ``module:Class``; blanks separate the names in it.

    Raises:
        KeyError: ``digests.json`` has no module of its distribution.
    """
    module, _, owner = scope.partition(":")
    prefix = f"{owner}." if owner else ""
    return tuple(
        Function(_PACKAGE[module.partition(".")[0]], module, prefix + name)
        for name in names.split()
    )


@dataclass(frozen=True)
class Patch:
    """Functions of upstream that a feature replaces or relies on."""

    feature: str
    """As ``flags/features.py`` names it."""
    effect: Effect
    functions: tuple[Function, ...]
    otherwise: str = ""
    """Values that a user may change instead of using another image."""
    fixed: tuple[str, ...] = ()
    fixed_by: str = ""
    """SHA-256 of known sources in which upstream does what the patch does, and its change."""

    @property
    def name(self) -> str:
        """Return the name in logs and in ``DPO_ACCEPT_PATCHES``."""
        return self.feature.replace("_", "-")


@dataclass(frozen=True)
class Verdict:
    """A patch on the installed sources."""

    patch: Patch
    state: State
    digests: Mapping[str, str]
    """The SHA-256 of each function's installed source, by its place; empty if it is missing."""
    unknown: tuple[Function, ...]
    """Functions whose installed source was not read."""
    proved: str = ""
    """The day on which this installation proved it on them, as 2026-11-26."""

    @property
    def is_installed(self) -> bool:
        """Return whether the training process installs the patch."""
        return self.state in ("installed", "proved", "accepted")

    @property
    def releases(self) -> str:
        """Return the releases whose sources the known functions have, e.g. ``ms-swift 4.4.1``."""
        found: dict[str, list[str]] = {}
        for f in (f for f in self.patch.functions if f not in self.unknown):
            found.setdefault(f.package, []).append(f.read[self.digests[f.place][:SHORT]])
        return "; ".join(f"{name} {each}" for name in found for each in _common(found[name]))

    def error(self) -> LaunchError:
        """Return the error of a refused patch, naming function, version and override."""
        first = self.unknown[0]
        package = f"{first.package} {source.version(first.package) or '(version unknown)'}"
        seen = self.digests[first.place][:12]
        what = f"its source is unknown (sha256 {seen})" if seen else "it has no such function"
        read = ", ".join(dict.fromkeys(first.read.values()))
        return LaunchError(
            Exit.CONFIG,
            f"patch {self.patch.name} was not written for {first.place} of {package}: {what}",
            f"use an image with {first.package} {read}{self._otherwise()}, or set "
            f"extraEnv.{ACCEPT}: {self.patch.name} and compare the first losses with a known "
            "version's, or prove it there: python3 -m launchers patches --prove",
            id="patch-unknown-source",
        )

    def _otherwise(self) -> str:
        return f", or {self.patch.otherwise}" if self.patch.otherwise else ""

    def log(self) -> None:
        """Warn that the patch is installed on an unknown source, or left out."""
        if self.unknown and not self.proved:
            logs.warning(
                f"patch {self.patch.name} {self.state}",
                unknown=",".join(f.place for f in self.unknown),
                versions=", ".join(
                    dict.fromkeys(f"{f.package} {source.version(f.package)}" for f in self.unknown)
                ),
            )


def _common(releases: Sequence[str]) -> list[str]:
    """Return the releases that have the sources of all functions; if none has, those of each.

    >>> _common(["1.6.0 to 1.6.4", "1.6.2 to 1.6.5"]), _common(["4.4.1, 4.5.3", "4.5.3, 4.6.0"])
    (['1.6.2 to 1.6.4'], ['4.5.3'])
    >>> _common(["4.4.1", "4.6.0"])
    ['4.4.1', '4.6.0']
    """
    common, *others = ([_ends(part) for part in each.split(", ")] for each in releases)
    for spans in others:
        both = ((max(a, c), min(b, d)) for a, b in common for c, d in spans)
        common = [(first, last) for first, last in both if first <= last]
    texts = (" to ".join(dict.fromkeys(".".join(map(str, end)) for end in span)) for span in common)
    return [", ".join(texts)] if common else list(dict.fromkeys(releases))


def _ends(part: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first, _, last = part.partition(" to ")
    return parse_version(first), parse_version(last or first)


def judge(patch: Patch, accepted: str) -> Verdict:
    """Compare the installed sources with those that were read."""
    digests = {f.place: source.digest(f.module, f.name) for f in patch.functions}
    unknown = tuple(
        f
        for f in patch.functions
        if digests[f.place][:SHORT] not in f.read or source.file_of(f.module) is None
    )
    day = proved.date(patch.name, digests, os.environ) if unknown else ""
    if not unknown:
        is_fixed = any(digest in patch.fixed for digest in digests.values())
        state: State = "not needed" if is_fixed else "installed"
    elif day:
        state = "proved"
    elif patch.name in accepted.replace(" ", "").replace("_", "-").split(","):
        state = "accepted"
    else:
        state = "stepped aside" if patch.effect == "speed" else "refused"
    return Verdict(patch, state, digests, unknown, day)
