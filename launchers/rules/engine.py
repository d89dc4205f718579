"""Rules as rows of data, the conditions that they consist of, and the facts that they judge.

``make flags`` writes the rows of ``Multiple`` and ``Conflict`` into the chart's table, of which
``chart/charts/library/templates/recipe`` prints the same messages;
tests compare both sides. ``scripts/values/relations.py`` judges all rows before submission.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, Protocol

from launchers.config.flag_value import switch
from launchers.config.recipe import OWN, TASK, TRAINS
from launchers.flags.flag_types import is_number, is_size, is_whole
from launchers.refusal import Refusal

GPU_MODEL = "gpuModel"
"""The chart's value, which a condition may ask for like a flag."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One recipe's flags, and the processes that share the work."""

    texts: Mapping[str, str]
    """Flag, or key of the recipe, to its text; one that is neither given nor has a default is
    missing."""
    nodes: int
    gpus: int
    overridden: frozenset[str] = field(default_factory=frozenset)
    """Flags that another flag replaces inside megatron-core: rules that read one do not judge."""

    @property
    def world(self) -> int:
        """Return the number of training processes."""
        return self.nodes * self.gpus

    def text(self, flag: str) -> str:
        """Return a flag's text; empty when it has none."""
        return self.texts.get(flag, "")

    def words(self, flag: str) -> list[str]:
        """Return a flag's values."""
        return self.text(flag).split()

    def is_on(self, flag: str) -> bool:
        """Return whether a switch is on."""
        return switch(self.text(flag)) is True

    def size(self, flag: str) -> int | None:
        """Return a flag's size, a whole number from 1 to 999999."""
        return int(self.text(flag)) if is_size(self.text(flag)) else None

    def number(self, flag: str) -> float | None:
        """Return a flag's number."""
        return float(self.text(flag)) if is_number(self.text(flag)) else None


Test = Literal["on", "off", "is", "isnt", "given", "missing", "over", "under", "has"]


@dataclass(frozen=True, kw_only=True)
class When:
    """A condition on one flag."""

    flag: str
    test: Test
    words: tuple[str, ...] = ()
    """Allowed or forbidden texts; of ``over`` and ``under`` one number, of ``has`` one value."""

    def holds(self, facts: Facts) -> bool:
        """Return whether the condition holds; other text is neither over nor under."""
        text, number = facts.text(self.flag), facts.number(self.flag)
        if self.test in ("given", "missing"):
            return (text != "") == (self.test == "given")
        if self.test == "on":
            return facts.is_on(self.flag)
        if self.test == "off":
            return not text or switch(text) is False
        if self.test == "has":
            return self.words[0] in facts.words(self.flag)
        if self.test in ("is", "isnt"):
            return text != "" and (text in self.words) == (self.test == "is")
        if number is None:
            return False
        bound = float(self.words[0])
        return number > bound if self.test == "over" else number < bound


class Make(Protocol):
    """Makes the condition of one kind."""

    def __call__(self, flag: str, *words: str) -> When:
        """Return the condition on a flag; ``words`` as those of ``When``."""


def _make(test: Test) -> Make:
    return lambda flag, *words: When(flag=flag, test=test, words=words)


on, off = _make("on"), _make("off")
"""A switch is on, or off."""
given, missing = _make("given"), _make("missing")
"""A flag is given or has a default, or neither."""
one_of, none_of = _make("is"), _make("isnt")
"""A flag is one of the values, or is given and none of them."""
over, under = _make("over"), _make("under")
"""A flag's number is more, or less, than one number."""
has = _make("has")
"""A flag with several values contains one value."""
TRAINS_ADAPTER = one_of(TRAINS, "adapter")
"""Whether Megatron's trainer trains an adapter: also with ``tuner_type: full`` if a flag names one.
"""
RLHF, NOT_RLHF = one_of(TASK, "rlhf"), none_of(TASK, "rlhf")
"""Whether the task trains on preferences."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Base class of all kinds of rules."""

    id: str
    """Stable name of the refusal."""
    source: str
    """The file that was read, and what happens there without the rule; not in the chart."""
    when: tuple[When, ...] = ()
    """The rule judges where all of these hold."""
    since: str = ""
    """First release of ms-swift that needs the rule; empty for all before ``fixed_in``."""
    fixed_in: str = ""
    """First release of ms-swift that no longer needs the rule; empty if none was read."""

    def flags(self) -> tuple[str, ...]:
        """Return the flags that the rule reads."""
        own = [value for name, value in vars(self).items() if name in _FLAG_FIELDS and value]
        several = [(value,) if isinstance(value, str) else value for value in own]
        read = (*(flag for some in several for flag in some), *(w.flag for w in self.when))
        return tuple(dict.fromkeys(name for name in read if _is_flag(name)))

    def judge(self, facts: Facts) -> list[Refusal]:
        """Return a message for each mistake."""
        if not all(w.holds(facts) for w in self.when):
            return []
        if facts.overridden and facts.overridden.intersection(self.flags()):
            return []
        return list(self._wrong(facts))

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        raise NotImplementedError

    def _refusal(self, subject: str, says: str) -> Refusal:
        """Return the refusal of a flag, or of a value by its path."""
        path = f"recipe.args.{subject}" if _is_flag(subject) else subject
        return Refusal(id=self.id, path=path, says=says)


def _is_flag(name: str) -> bool:
    return name not in ("world", GPU_MODEL) and not name.startswith(OWN)


_FLAG_FIELDS = ("flag", "total", "factors", "replica", "least", "most")


@dataclass(frozen=True, kw_only=True)
class Multiple(Rule):
    """A total must be a multiple of a product; not judged where one of them is not a size."""

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
        factors = " x ".join(f"{name} {facts.text(name)}" for name in self.factors)
        divisor = prod(int(facts.text(name)) for name in self.factors)
        if self.total == "world":
            if facts.world % divisor:
                yield self._refusal(
                    "recipe.args",
                    f"{facts.world} processes (nodes {facts.nodes} x gpusPerNode "
                    f"{facts.gpus}) are not a multiple of {factors} = {divisor}; "
                    "change the sizes, nodes or gpusPerNode",
                )
            return
        size = prod(int(facts.text(name)) for name in self.replica)
        replicas = facts.world // size
        divisor *= replicas
        # a replica that does not fit is the message of another rule
        if not facts.world % size and int(facts.text(self.total)) % divisor:
            yield self._refusal(
                self.total,
                f"{facts.text(self.total)} is not a multiple of {factors} "
                f"x {replicas} replicas = {divisor}; use a multiple of {divisor}",
            )


@dataclass(frozen=True, kw_only=True)
class Range(Rule):
    """A flag that is given must be a number within bounds."""

    flag: str
    noun: str
    """Description of the number, for the message."""
    low: str = "0"
    high: str = ""
    """The greatest, or empty: there is none."""
    below: bool = False
    """True if ``high`` itself is not allowed."""
    whole: bool = False

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        text = facts.text(self.flag)
        if text and not self._fits(text):
            number = "a whole number" if self.whole else "a number"
            most = f"to {'less than ' if self.below else ''}{self.high}"
            bounds = f"from {self.low} {most}" if self.high else f"of {self.low} or more"
            says = f'"{text}" is not a valid {self.noun}; use {number} {bounds}'
            yield self._refusal(self.flag, says)

    def _fits(self, text: str) -> bool:
        if not (is_whole if self.whole else is_number)(text) or float(text) < float(self.low):
            return False
        if not self.high:
            return True
        high = float(self.high)
        return float(text) < high if self.below else float(text) <= high


@dataclass(frozen=True, kw_only=True)
class Words(Rule):
    """Every value of a flag must be known."""

    flag: str
    known: tuple[str, ...]
    otherwise: str = ""
    """Further remedy where the flag also takes a path or JSON, which are not judged."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        if self.otherwise and re.search("[/.{]", facts.text(self.flag)):
            return
        for word in facts.words(self.flag):
            if word not in self.known:
                known = ("one of " if len(self.known) > 1 else "") + ", ".join(self.known)
                yield self._refusal(self.flag, f'"{word}" is unknown; use {known}{self.otherwise}')


@dataclass(frozen=True, kw_only=True)
class Names(Rule):
    """No name of a flag that takes several holds a comma: ms-swift does not divide it."""

    flag: str

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        for word in facts.words(self.flag):
            if "," in word:
                names = ", ".join(filter(None, word.split(",")))
                yield self._refusal(self.flag, f'"{word}" is one name; use a list: [{names}]')


@dataclass(frozen=True, kw_only=True)
class Local(Rule):
    """A flag that names files must do it by absolute paths: it is not for the download stage.

    Several values are one text here, and a path may hold blanks: only the first is judged, and
    whether any is an address.
    """

    flag: str
    instead: str
    """Further remedy, appended to the message."""
    evaluates: bool = False
    """True if training evaluates on the files: ``plan`` refuses those of ``recipe.dataset``
    by their text, the launcher by their file."""

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        text = facts.text(self.flag)
        if text and (not text.startswith("/") or "://" in text):
            yield self._refusal(
                self.flag,
                f'"{text}" would not be downloaded, unlike recipe.dataset; '
                f"use the absolute path of a file on the workspace{self.instead}",
            )


@dataclass(frozen=True, kw_only=True)
class Order(Rule):
    """One flag's number must not be above another's; silent where one is missing."""

    least: str
    most: str
    strict: bool = False
    twice: bool = False
    """True if twice ``least`` must not exceed ``most``."""

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
                self.most,
                f"{most} is less than twice {self.least} {least}; use at least twice as much",
            )
            return
        wrong, right = (
            ("not less than", "less") if self.strict else ("greater than", f"at most {most}")
        )
        yield self._refusal(self.least, f"{least} is {wrong} {self.most} {most}; use {right}")


@dataclass(frozen=True, kw_only=True)
class Conflict(Rule):
    """Conditions that must not hold together."""

    flag: str = ""
    """Subject of the message: a flag, or a value with its whole path; by default the first flag
    that ``when`` asks for."""
    says: str
    """Cause and remedy; ``{flag}`` stands for a condition's text."""

    def __post_init__(self) -> None:
        """Take the subject from the conditions if it is not given."""
        if not self.flag:
            asked = (condition.flag for condition in self.when)
            object.__setattr__(self, "flag", next(filter(_is_flag, asked)))

    def _wrong(self, facts: Facts) -> Iterator[Refusal]:
        says = self.says
        for condition in self.when:
            says = says.replace(f"{{{condition.flag}}}", facts.text(condition.flag))
        yield self._refusal(self.flag, says)


def conflicts(flag: str, form: str, *always: When) -> Callable[..., Conflict]:
    """Return the maker of a flag's conflicts, which share conditions and a part of the message.

    ``form`` is the message, ``%s`` for the part that differs.
    """

    def conflict(id: str, says: str, source: str, *when: When) -> Conflict:
        return Conflict(
            id=id, flag=flag, when=(*always, *when), says=form.replace("%s", says), source=source
        )

    return conflict
