"""Conditions on flags, of which rules are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from launchers.flags.values import NO
from launchers.rules.facts import Facts

Test = Literal["on", "off", "is", "isnt", "given", "missing", "over", "under", "has"]


@dataclass(frozen=True, kw_only=True)
class When:
    """A condition on one flag."""

    flag: str
    test: Test
    words: tuple[str, ...] = ()
    """Allowed or forbidden texts; of ``over`` and ``under`` one number, of ``has`` one word."""

    def holds(self, facts: Facts) -> bool:
        """Tell whether the condition holds; a text that is no number is neither over nor under."""
        text, number = facts.text(self.flag), facts.number(self.flag)
        if self.test in ("given", "missing"):
            return (text != "") == (self.test == "given")
        if self.test in ("on", "off"):
            return facts.is_on(self.flag) if self.test == "on" else text.lower() in (*NO, "")
        if self.test == "has":
            return self.words[0] in facts.words(self.flag)
        if self.test in ("is", "isnt"):
            return text != "" and (text in self.words) == (self.test == "is")
        if number is None:
            return False
        bound = float(self.words[0])
        return number > bound if self.test == "over" else number < bound


def on(flag: str) -> When:
    """Return the condition that a switch is on."""
    return When(flag=flag, test="on")


def off(flag: str) -> When:
    """Return the condition that a switch is off."""
    return When(flag=flag, test="off")


def given(flag: str) -> When:
    """Return the condition that a flag is given or has a default."""
    return When(flag=flag, test="given")


def missing(flag: str) -> When:
    """Return the condition that a flag is not given and has no default."""
    return When(flag=flag, test="missing")


def one_of(flag: str, *words: str) -> When:
    """Return the condition that a flag is one of the words."""
    return When(flag=flag, test="is", words=words)


def none_of(flag: str, *words: str) -> When:
    """Return the condition that a flag is given and none of the words."""
    return When(flag=flag, test="isnt", words=words)


def over(flag: str, number: str) -> When:
    """Return the condition that a flag's number is more."""
    return When(flag=flag, test="over", words=(number,))


def under(flag: str, number: str) -> When:
    """Return the condition that a flag's number is less."""
    return When(flag=flag, test="under", words=(number,))


def has(flag: str, word: str) -> When:
    """Return the condition that a flag of several words holds this one."""
    return When(flag=flag, test="has", words=(word,))
