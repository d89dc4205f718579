"""The runs of a sweep: their names, and the values in which they differ."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scripts.problem import WrongUse

MOST = 64
"""Most runs of a sweep; more is rather a mistake than a wish."""
LONGEST = 40
"""Characters of a name; the chart allows 45 to 48 (`validate/_release.tpl`)."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One run."""

    run: str
    values: Mapping[str, str]
    """Text of each varied value by its path, as in Helm's ``--set``."""

    @property
    def sets(self) -> list[str]:
        """Return the assignments for Helm's ``--set``."""
        return [f"{path}={text}" for path, text in self.values.items()]


def variants(run: str, given: Sequence[str]) -> list[Variant]:
    r"""Return the runs for all combinations of the given values.

    A run is called after its values, so that a sweep that is repeated with more values leaves the
    runs of the first one as they are.
    ``given`` are ``path=value,value``; ``\,`` is a comma in a value, as are those in ``{}``.

    Raises:
        WrongUse: an argument is not of this form, or names a path or a value twice; there are more
            runs than ``MOST``.

    >>> [each.run for each in variants("dpo", ["recipe.args.beta=0.05,0.1"])]
    ['dpo-beta-0-05', 'dpo-beta-0-1']
    """
    axes = dict(map(_axis, given))
    if len(axes) < len(given) or not axes:
        raise WrongUse("--vary: give it at least once, and each path only once")
    made = [dict(zip(axes, texts, strict=True)) for texts in product(*axes.values())]
    if len(made) > MOST:
        raise WrongUse(f"--vary: {len(made)} combinations; at most {MOST} are allowed in a sweep")
    names = [_name(run, each) for each in made]
    if len({*names}) < len(names):
        names = [_short(run, each) for each in made]
    return [Variant(run=name, values=each) for name, each in zip(names, made, strict=True)]


def _axis(given: str) -> tuple[str, list[str]]:
    path, equals, text = given.partition("=")
    values = re.split(r"(?<!\\),(?![^{]*\})", text)
    if not path or not equals or "" in values:
        raise WrongUse(f"--vary {given!r}: write PATH=VALUE,VALUE, e.g. recipe.args.beta=0.05,0.1")
    if len({*values}) < len(values):
        raise WrongUse(f"--vary {given!r}: a value is given twice; remove one")
    return path, values


def _name(run: str, values: Mapping[str, str]) -> str:
    words = [word for path, text in values.items() for word in (path.rpartition(".")[2], text)]
    name = re.sub(r"[^a-z0-9]+", "-", "-".join([run, *words]).lower()).strip("-")
    return name if len(name) <= LONGEST else _short(run, values)


def _short(run: str, values: Mapping[str, str]) -> str:
    return f"{run}-{hashlib.sha256(repr([*values.items()]).encode()).hexdigest()[:8]}"
