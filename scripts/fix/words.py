"""The changes that a refusal's words propose: ``path: cause; remedy [id]``.

The words are the one place that holds a remedy: a rule, the schema or a template writes them, and a
user reads the same. What they leave open is asked.
"""

import json
import re
from collections.abc import Sequence
from itertools import compress
from typing import Any

import yaml

from scripts.fix.change import Act, Change, Choice, Remedy
from scripts.fix.places import PRONOUNS, absolute, is_key, is_name, maps

_LINE = re.compile(r"(?:- )?(?P<path>.*?): (?P<rest>.*) \[(?P<id>[a-z0-9-]+)\]", re.DOTALL)
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_NAME = r"[A-Za-z_][\w./-]*(?:\[\d+\])?(?:\.[\w./-]+)*"
_SETS = re.compile(rf"(?:(?:set|use|write) )?(?P<name>{_NAME}): (?P<value>.+)")
_OPEN = re.compile(
    r"\b(?:NAME|VALUE|KEY|FILE|SECRET|COUNT|LABEL|BUCKET|PATH|FOLDER|TEXT)\b|\.\.\.| or more$|://"
    r"|^(?:an?|the|at most|at least|less than) "
)
"""Words in capitals, and a kind such as `a whole number`, stand for a value that the user knows."""
_WANTS = re.compile(r"requires (?P<flag>[a-z]\w+) (?P<words>with\b|[^;]*?, not \S+)")
_EXPLAINED = re.compile(r"(?<=remove it): .*|; own code is .*| \([^()]*\)")
_SPLITS = re.compile(r"; if |; (?=use |set )|, or | or |, (?=use |set |remove |write )")
_CHOICES = re.compile(r"use (?:one of )?[^ ]+(?:, [^ ]+)* or [^ ]+$|use one of ")
_LISTED = re.compile(r", | or ")
_OF_LISTS = ("init-container-env", "sysctl-twice", "label-keys", "extra-object-key")
"""Ids of a path that holds both things of which one is removed."""
_UNKNOWN = ("key-unknown", "flag-unknown")
"""Ids of a name that no value makes known."""
_INSTEAD = (
    *("adapter-target-regex", "env-nccl-debug", "env-token", "overrides-parallel"),
    *("network-attachment-ambiguous", "network-device-ambiguous"),
)
"""Ids whose remedy is in the place of the refused value."""
_INSIDE = (
    *("character", "character-blank", "code-url-secret", "network-resource-no-device"),
    *("recompute-layernorm-moe", "recompute-mla", "resource-gpu", "secret-file", "secret-name"),
    "sysctl-host-network",
)
"""Ids whose ``it`` is a part of the value."""
_PATH = re.compile(rf'{_NAME}(?:(?:\[\d+\]|\["[^"]*"\])\.?[\w./-]*)*')
_NAMED = ("label-owned", "label-kueue", "annotation-reserved", "label-name", "env-name")
"""Ids whose cause begins with the name of an entry of the path."""
Choices = tuple[tuple[Choice, ...], bool]
"""Alternatives, and whether the one that there is keeps the user's meaning."""


def remedy(line: str) -> Remedy | None:
    """Return the changes of a refusal's line; None for another line.

    >>> remedy("recipe.args.lr: a; remove it [x]").choices
    ((Change(act=<Act.REMOVE: 'remove'>, path='recipe.args.lr', value=None),),)
    >>> [each[0].value for each in remedy("nodes: 3; use 1, 2 or 4 [x]").choices]
    [1, 2, 4]
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    path, id = found["path"], found["id"]
    hidden = _TEXT.sub(lambda text: "_" * len(text[0]), found["rest"])
    at = hidden.find("; ")
    cause, words = (found["rest"], "") if at < 0 else (found["rest"][:at], found["rest"][at + 2 :])
    choices, is_sure = _Words(id=id, path=path, cause=cause, words=words).read()
    return Remedy(id=id, path=path, line=line.strip(), choices=choices, is_sure=is_sure)


def remedies(lines: Sequence[str]) -> list[Remedy]:
    """Return the remedies of lines, without those that have no changes."""
    return [found for line in lines if (found := remedy(line)) and found.choices]


class _Words:
    """One refusal's words, read from the plainest form to the least definite one."""

    def __init__(self, *, id: str, path: str, cause: str, words: str) -> None:
        self.id, self.path, self.cause, self.words = id, path, cause, words

    def read(self) -> Choices:
        """Return the alternatives, and whether the one that there is keeps the user's meaning."""
        if not _PATH.fullmatch(self.path):
            return (), False
        for form in (self._form, self._renamed, self._nearest, self._one_of_two, self._multiple):
            if found := form():
                return found
        words = self.words
        if not _CHOICES.match(words):
            words = _SPLITS.sub("\0", _EXPLAINED.sub("", words))
        choices: list[Choice] = []
        for part in filter(None, (part.strip(" ,") for part in words.split("\0"))):
            choices += self._part(part, choices)
        own = self._ask(self.path)
        if self.id in (*_UNKNOWN, *_INSTEAD):
            gone = self._removed(self.path)
            own_values = (Act.ASK, Act.SET)
            others = [e for e in choices if e[0].path != self.path or e[0].act not in own_values]
            choices = [e if e[0].path == self.path else (*gone, *e) for e in others] or [gone]
        elif self.id in _INSIDE:
            choices = [own]
        elif all(each[0].act is Act.ASK for each in choices):
            choices = [*choices, own, *map(self._ask, self._named(self.cause))]
        if self.id.startswith("secret-"):
            choices.append(own)
        return tuple(dict((repr(each), each) for each in choices).values()), False

    def _at(self, name: str) -> str:
        return absolute(name, self.path, self.cause)

    def _ask(self, name: str) -> Choice:
        return (Change(act=Act.ASK, path=self._at(name), value=self.words),)

    def _set(self, name: str, value: Any) -> Choice:
        return (Change(act=Act.SET, path=self._at(name), value=value),)

    def _removed(self, path: str) -> Choice:
        return (Change(act=Act.REMOVE, path=re.sub(r"(?<=\])\.name$", "", path)),)

    def _named(self, text: str) -> list[str]:
        words = re.findall(r"[A-Za-z]\w*(?:\.\w+)*", _TEXT.sub("", text))
        words = [each for each in words if re.search(r"[A-Z_.]", each) and each not in PRONOUNS]
        known = (is_name(w.removeprefix("recipe.args.")) or is_key(self._at(w)) for w in words)
        return list(dict.fromkeys(compress(words, known)))

    def _form(self) -> Choices | None:
        """Read remedies about the form of a value, whose meaning stays."""
        if self.words.startswith("quote it as it was written"):
            return ((Change(act=Act.QUOTE, path=self.path),),), True
        if same := re.fullmatch(r"use (\S+) \(one of .*\)", self.words):
            return (self._set(self.path, same[1]),), True
        if self.id in ("env-boolean", "env-list-blank"):
            text = _TEXT.search(self.words)
            return ((self._set(self.path, json.loads(text[0])),), True) if text else None
        given = _TEXT.match(self.cause)
        if given is None:
            return None
        value = json.loads(given[0])
        if self.words.startswith("remove the quotes"):
            said = re.search(r"and write (true|false)", self.words)
            is_octal = re.match(r"[-+]?0\d", value) and not self.path.lower().endswith("mode")
            return (self._set(self.path, yaml.safe_load(said[1] if said else value)),), not is_octal
        if self.words == f"use a list, such as [{given[0]}]":
            return (self._set(self.path, [value]),), True
        if self.cause.endswith("begins or ends with a blank"):
            return (self._set(self.path, value.strip()),), True
        if self.id in _NAMED and value:
            return (self._removed(f"{self.path}.{value}"),), False
        return None

    def _renamed(self) -> Choices | None:
        """Read a key or flag that has another name here."""
        if self.id == "flag-name":
            return self._flag_name()
        other = re.fullmatch(r"use (\w+) \((?:with the value (\w+))?.*\)", self.words)
        if self.id == "flag-renamed" and other:
            made = self._set(other[1], other[2]) if other[2] else self._ask(other[1])
            return ((*self._removed(self.path), *made),), False
        found = re.fullmatch(
            r"(?:if you mean [^:]*: )?use (?P<to>[\w.]+)(?:\. For .*)?", self.words
        )
        if self.id not in (*_UNKNOWN, "flag-renamed", "label-smoothing-factor") or not found:
            return None
        to = found["to"]
        is_flag = self.path.startswith("recipe.") and not to.startswith("recipe.")
        if self.id != "key-unknown" or (is_flag and "of recipe.args" in self.words):
            to = f"recipe.args.{to}"
        is_same = "if you mean" not in self.words and self.id != "label-smoothing-factor"
        return ((Change(act=Act.MOVE, path=self.path, value=to),),), is_same

    def _flag_name(self) -> Choices | None:
        given, to = _TEXT.match(self.cause), self.words.removeprefix("use ")
        if given is None:
            return None
        name = str(json.loads(given[0]))
        if name.lstrip("-").replace("-", "_") != to:
            return ((Change(act=Act.REMOVE, path=f'recipe.args["{name}"]'),),), False
        old = f'recipe.args["{name}"]'
        return ((Change(act=Act.MOVE, path=old, value=f"recipe.args.{to}"),),), True

    def _nearest(self) -> Choices | None:
        """Read what a misspelt word was meant to be: a guess, which the user confirms."""
        found = re.match(r"the nearest is (?P<near>\S+?)(?:[.;] | \(|$)", self.words)
        if found is None:
            return None
        near = found["near"]
        if self.id in ("key-unknown", "flag-unknown"):
            is_whole = near.startswith(("recipe.", *(f"{key}." for key in maps()[""])))
            level = self.path.rpartition(".")[0]
            to = near if is_whole or not level else f"{level}.{near}"
            return ((Change(act=Act.MOVE, path=self.path, value=to),),), False
        return (self._set(self.path, near), self._ask(self.path)), False

    def _one_of_two(self) -> Choices | None:
        """Read ``remove one``: the value or another that the cause names."""
        both = re.match(r"(?:sets )?(\w+) and (\w+)(?: set)?$", self.cause)
        if both and re.match(r"set (?:exactly )?one of", self.words):
            return tuple(self._removed(f"{self.path}.{each}") for each in both.groups()), False
        is_one = re.match(r"(?:remove|set) one(?: of them| of the two)?\b", self.words)
        if not is_one or self.cause.startswith("empty") or "to false" in self.words:
            return None
        if self.id in _OF_LISTS:
            return (self._ask(self.path),), False
        plain = _TEXT.sub("", self.cause)
        after = re.findall(r"(?:with|and|of|requires) ([a-z]\w+)\b(?! is set twice)", plain)
        paths = dict.fromkeys(map(self._at, (*self._named(plain), *after)))
        known = [p for p in paths if p.startswith("recipe.args.") or is_key(p)]
        known = [p for p in known if p != self.path and not _holds_any(p, known)]
        asked = [] if known else [self._ask(self.path)]
        return (*map(self._removed, (self.path, *known)), *asked), False

    def _multiple(self) -> Choices | None:
        """Read a number that has to be a multiple of another: the next one below and above."""
        found = re.fullmatch(r"use a multiple of (\d+)", self.words)
        given = re.match(r"\d+", self.cause)
        if not found or not given:
            return None
        step, number = int(found[1]), int(given[0])
        near = (number // step * step, -(-number // step) * step)
        return tuple(self._set(self.path, each) for each in near if each), False

    def _part(self, part: str, before: Sequence[Choice] = ()) -> list[Choice]:
        """Return the choices of one alternative, which may continue the one before."""
        both = re.split(rf" and (?=set {_NAME}|{_NAME}: )", part)
        if len(both) > 1:
            made = [self._part(each)[0] for each in both]
            return [tuple(change for choice in made for change in choice)]
        if two := re.fullmatch(rf"set ({_NAME}) and ({_NAME})", part):
            return [(*self._ask(two[1]), *self._ask(two[2]))]
        if re.match(r"remove (?:it|them|th(?:is|e) (?:flag|key|value|mount|script))\b", part):
            empty = self._named(self.cause) if self.cause.startswith("empty") else []
            return [self._removed((empty or [self.path])[0])]
        if part.endswith(" and remove it"):
            return [(*self._removed(self.path), *self._ask(each)) for each in self._named(part)]
        if only := re.fullmatch(r"remove (?!some)([a-z]\w+)", part):
            return [self._removed(self._at(only[1]))]
        if re.fullmatch(r"[\w.-]+(?: without quotes)?", part) and before:
            last = before[-1][0]
            if last.act is Act.SET:
                return [self._set(last.path, yaml.safe_load(part.partition(" ")[0]))]
        if sets := _SETS.match(part):
            return [self._sets(sets["name"], sets["value"])]
        if listed := re.fullmatch(r"(?:use|set it to) (?:one of )?(?P<words>.+)", part):
            return self._used(listed["words"])
        if (name := part.removeprefix("set ")) != part and is_name(name) and name not in PRONOUNS:
            return [self._ask(name)]
        is_other = re.match(r"set (?:it|that|the [A-Z]\w+)$", part)
        named = self._named(self.cause if is_other else part)
        return [*map(self._ask, named or [self.path])]

    def _sets(self, name: str, text: str) -> Choice:
        if _OPEN.search(text):
            return self._ask(name)
        if text.startswith("and "):
            return self._ask(self.path)
        text = re.sub(r" for .*|, (?:whose|which|so|if|where) .*| if the .*", "", text)
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return self._ask(name)
        is_prose = isinstance(value, str) and " " in value
        is_prose = is_prose or (isinstance(value, dict) and text[0] != "{")
        return self._ask(name) if is_prose else self._set(name, value)

    def _used(self, words: str) -> list[Choice]:
        """Return the choices of ``use A``, ``use A, B or C``."""
        words = words.removesuffix(" without quotes")
        texts = [words] if words[0] in "[{" else [each.strip() for each in _LISTED.split(words)]
        is_prose = words[0] not in "[{" and any(" " in each or not each for each in texts)
        if is_prose or _OPEN.search(words) or "/name" in self.words:
            return [*map(self._ask, self._named(words) or [self.path])]
        if self.id == "workspace-shared":
            return [self._in_place(f"workspace.{each}") for each in texts]
        if self.id == "value-name":
            level = self.path.rpartition(".")[0]
            return [(Change(act=Act.MOVE, path=self.path, value=f"{level}.{n}"),) for n in texts]
        if any(is_name(each) for each in texts):
            return [
                self._in_place(each) if is_name(each) else self._ask(self.path) for each in texts
            ]
        target, wants = self.path, _WANTS.search(self.cause)
        if wants and texts[0] in ("true", *re.split(r", | or |, not ", wants["words"])):
            target = wants["flag"]
        return [self._set(target, yaml.safe_load(each)) for each in texts]

    def _in_place(self, name: str) -> Choice:
        """Return the use of another key or flag in place of the refused one."""
        if name in PRONOUNS:
            return self._ask(self.path)
        to = self._at(name)
        if to != self.path and to.rpartition(".")[2] == self.path.rpartition(".")[2]:
            return (Change(act=Act.MOVE, path=self.path, value=to),)
        return (*self._removed(self.path), *self._ask(name))


def _holds_any(path: str, paths: Sequence[str]) -> bool:
    return any(each.startswith(f"{path}.") for each in paths)
