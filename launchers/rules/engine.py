"""The kinds of rules: rows of data that the launcher and the chart judge alike.

``scripts/flags.py`` writes rows into the chart's table, and ``chart/templates/recipe`` says the
same words, or ``values.schema.json`` the same bounds; tests compare both sides. To
add a kind: a class here, a template there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from launchers.flags.values import is_number, is_size, is_whole
from launchers.refusal import Refusal
from launchers.rules.condition import When
from launchers.rules.facts import REFERENCE, TASK, Facts


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What all kinds share."""

    id: str
    """Stable name of the refusal."""
    source: str
    """The file that was read, and what happens there without the rule; not in the chart."""
    when: tuple[When, ...] = ()
    """The rule judges where all of these hold."""

    def flags(self) -> tuple[str, ...]:
        """Return the flags that the rule reads."""
        own = [value for name, value in vars(self).items() if name in _FLAG_FIELDS and value]
        several = [(value,) if isinstance(value, str) else value for value in own]
        read = (*(flag for some in several for flag in some), *(w.flag for w in self.when))
        return tuple(dict.fromkeys(name for name in read if name not in _NO_FLAGS))

    def judge(self, facts: Facts) -> list[Refusal]:
        """Return a message for each mistake."""
        if facts.overridden & set(self.flags()) or not all(w.holds(facts) for w in self.when):
            return []
        return list(self._wrong(facts))

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        raise NotImplementedError

    def _refusal(self, path: str, says: str) -> Refusal:
        return Refusal(id=self.id, path=path, says=says)


_NO_FLAGS = ("world", TASK, REFERENCE)
_FLAG_FIELDS = ("flag", "total", "factors", "replica", "least", "most")


@dataclass(frozen=True, kw_only=True)
class Multiple(Rule):
    """A total must be a multiple of a product; silent where one of them is no size."""

    total: str
    """``world``, the processes of the gang, or the name of a flag."""
    factors: tuple[str, ...]
    """Flags whose product divides the total."""
    replica: tuple[str, ...] = ()
    """Flags whose product is one replica: the number of replicas is a factor too."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        names = {*self.factors, *self.replica, self.total} - {"world"}
        if not all(is_size(facts.text(name)) for name in names):
            return
        spelt = " x ".join(f"{name} {facts.text(name)}" for name in self.factors)
        divisor = prod(int(facts.text(name)) for name in self.factors)
        if self.total == "world":
            if facts.world % divisor:
                yield self._refusal(
                    "recipe.args",
                    f"{facts.world} processes (nodes {facts.nodes} x gpusPerNode "
                    f"{facts.gpus}) are not a multiple of {spelt} = {divisor}; "
                    "change the sizes, nodes or gpusPerNode",
                )
            return
        size = prod(int(facts.text(name)) for name in self.replica)
        replicas = facts.world // size
        divisor *= replicas
        # a replica that does not fit is the message of another rule
        if not facts.world % size and int(facts.text(self.total)) % divisor:
            yield self._refusal(
                f"recipe.args.{self.total}",
                f"{facts.text(self.total)} is not a multiple of {spelt} "
                f"x {replicas} replicas = {divisor}; write a multiple of {divisor}",
            )


@dataclass(frozen=True, kw_only=True)
class Range(Rule):
    """A flag that is given must be a number within bounds."""

    flag: str
    noun: str
    """What the number is, for the message."""
    low: str = "0"
    high: str = ""
    """The greatest, or empty: there is none."""
    below: bool = False
    """Whether ``high`` itself is too much."""
    whole: bool = False

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        text = facts.text(self.flag)
        if text and not self._fits(text):
            number = "a whole number" if self.whole else "a number"
            most = f"to {'less than ' if self.below else ''}{self.high}"
            bounds = f"from {self.low} {most}" if self.high else f"of {self.low} or more"
            says = f'"{text}" is no {self.noun}; write {number} {bounds}'
            yield self._refusal(f"recipe.args.{self.flag}", says)

    def _fits(self, text: str) -> bool:
        if not (is_whole if self.whole else is_number)(text) or float(text) < float(self.low):
            return False
        if not self.high:
            return True
        high = float(self.high)
        return float(text) < high if self.below else float(text) <= high


@dataclass(frozen=True, kw_only=True)
class Words(Rule):
    """Every word of a flag must be known."""

    flag: str
    known: tuple[str, ...]

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        for word in facts.words(self.flag):
            if word not in self.known:
                known = ", ".join(self.known)
                says = f'"{word}" is not known; write one of {known}'
                yield self._refusal(f"recipe.args.{self.flag}", says)


@dataclass(frozen=True, kw_only=True)
class Local(Rule):
    """A flag that names files must do it by absolute paths: it is not for the download stage.

    Several values are one text here, and a path may hold blanks: only the first is looked at, and
    whether any is an address.
    """

    flag: str
    instead: str
    """What else to write."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        text = facts.text(self.flag)
        if text and (not text.startswith("/") or "://" in text):
            yield self._refusal(
                f"recipe.args.{self.flag}",
                f'"{text}" would not be downloaded, as recipe.dataset is; '
                f"write the absolute path of what is on the workspace{self.instead}",
            )


@dataclass(frozen=True, kw_only=True)
class Order(Rule):
    """One flag's number must not be above another's; silent where one is missing."""

    least: str
    most: str
    strict: bool = False
    twice: bool = False
    """Whether twice the one must not be above the other."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        low, high = facts.number(self.least), facts.number(self.most)
        if low is None or high is None:
            return
        low *= 1 + self.twice
        if low < high or (low == high and not self.strict):
            return
        least, most = facts.text(self.least), facts.text(self.most)
        if self.twice:
            yield self._refusal(
                f"recipe.args.{self.most}",
                f"{most} is less than twice {self.least} {least}; write twice as much",
            )
            return
        wrong, right = ("not below", "less") if self.strict else ("above", f"at most {most}")
        says = f"{least} is {wrong} {self.most} {most}; write {right}"
        yield self._refusal(f"recipe.args.{self.least}", says)


@dataclass(frozen=True, kw_only=True)
class Conflict(Rule):
    """Conditions that must not hold together."""

    flag: str
    """What the message names: a flag, or a value with its whole path."""
    says: str
    """What is wrong and what to write; ``{flag}`` stands for a condition's text."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        says = self.says
        for condition in self.when:
            says = says.replace(f"{{{condition.flag}}}", facts.text(condition.flag))
        path = self.flag if self.flag.startswith("recipe.") else f"recipe.args.{self.flag}"
        yield self._refusal(path, says)
