"""The changes that a refusal's words propose: ``path: cause; remedy [id]``.

The words are the one place that holds a remedy: a rule, the schema or a template writes them, and a
user reads the same. What they leave open is asked.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from scripts.fix.change import Act, Change, Choice, Remedy
from scripts.fix.places import PRONOUNS, absolute, is_key, is_name, maps

_LINE = re.compile(r"(?:- )?(?P<path>.*?): (?P<rest>.*) \[(?P<id>[a-z0-9-]+)\]", re.DOTALL)
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_NAME = r"[A-Za-z_][\w./-]*(?:\[\d+\])?(?:\.[\w./-]+)*"
_SETS = re.compile(rf"(?:(?:set|use|write) )?(?P<name>{_NAME}): (?P<value>.+)")
_NAMES = re.compile(rf"(?:set|use|write) (?P<name>{_NAME})(?: too)?")
_RANGE = re.compile(
    r"use a (?:whole )?number|use at (?:most|least)|use less than|use (?:a|an|the) "
)
_OPEN = re.compile(
    r"\b(?:NAME|VALUE|KEY|FILE|SECRET|COUNT|LABEL|BUCKET|PATH|FOLDER|TEXT)\b|\.\.\.| or more$"
)
"""Words in capitals stand for a value that the user knows."""
_OTHERS = re.compile(r"[a-z]\w*(?:\.\w+)*")
_WANTS = re.compile(r"requires (?P<flag>[a-z]\w+) (?P<words>[^;]*?), not \S+")
_MISSING = re.compile(r"requires (?P<flag>[a-z]\w+), which is missing")
_PARENTHESES = re.compile(r" \([^()]*\)")
_RENAMED = ("flag-renamed", "flag-name", "key-unknown", "flag-unknown", "label-smoothing-factor")
_SPLITS = re.compile(r"; if |; (?=use |set )|, or | or |, (?=use |set |remove |write )")
_LISTED = re.compile(r", | or ")
_OF_LISTS = ("init-container-env", "sysctl-twice", "label-keys", "extra-object-key")
"""Ids of a path that holds both things of which one is removed."""
_INSTEAD = (
    *("key-unknown", "env-token", "env-nccl-debug"),
    *("network-attachment-ambiguous", "network-device-ambiguous"),
)
"""Ids whose remedy is in the place of the refused value."""
_PATH = re.compile(rf'{_NAME}(?:(?:\[\d+\]|\["[^"]*"\])\.?[\w./-]*)*')
_NAMED = ("label-owned", "label-kueue", "annotation-reserved", "label-name", "env-name")
"""Ids whose cause begins with the name of an entry of the path."""
_INSIDE = (
    *("character", "sysctl-host-network", "resource-gpu", "recompute-mla"),
    *("recompute-layernorm-moe", "character-blank", "secret-name", "secret-file"),
)
"""Ids whose ``it`` is a part of the value."""


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

    def read(self) -> tuple[tuple[Choice, ...], bool]:
        """Return the alternatives, and whether the one that there is keeps the user's meaning."""
        if not _PATH.fullmatch(self.path):
            return (), False
        for form in (self._form, self._renamed, self._nearest, self._one_of_two, self._numbers):
            if found := form():
                return found
        choices: dict[str, Choice] = {}
        for part in self._parts():
            made = self._part(part, list(choices.values()))
            choices |= {repr(each): each for each in made}
        if self.id.startswith("secret-"):
            choices |= {"ask": self._ask()}
        own = (Change(act=Act.ASK, path=self.path, value=self.words),)
        if self.id in _INSTEAD:
            others = [each for each in choices.values() if each != own]
            choices = {repr(each): each for each in map(self._instead, others)}
        if self.id not in ("key-unknown", "flag-unknown"):
            return tuple(choices.values() or [own]), False
        # no value makes an unknown name known
        kept = [each for each in choices.values() if each != own]
        return tuple(kept or [*self._elsewhere(), self._removed(self.path)]), False

    def _instead(self, choice: Choice) -> Choice:
        """Return a choice that sets other values, without the refused one."""
        is_other = all(change.path != self.path for change in choice)
        return (*self._removed(self.path), *choice) if is_other else choice

    def _elsewhere(self) -> list[Choice]:
        """Return the keys that the words name instead of an unknown one."""
        if backend := re.search(r"a flag of recipe.backend (\w+)", self.words):
            return [self._set("recipe.backend", backend[1])]
        removed = self._removed(self.path)
        if both := re.fullmatch(rf"use ({_NAME}) and ({_NAME})", self.words):
            return [(Change(act=Act.MOVE, path=self.path, value=name),) for name in both.groups()]
        words = dict.fromkeys(re.findall(r"(?:use|and|,) ([a-zA-Z][\w.]+\b)", self.words))
        known = [each for each in words if each in maps()[""] or is_key(each)]
        return [(*removed, *self._ask(each)) for each in known]

    def _parts(self) -> list[str]:
        words = self.words if self._is_listed() else _SPLITS.sub("\0", self._unexplained())
        return [part.strip(" ,") for part in words.split("\0") if part.strip(" ,")]

    def _is_listed(self) -> bool:
        return bool(
            re.match(r"use (?:one of )?[^ ]+(?:, [^ ]+)* or [^ ]+$|use one of ", self.words)
        )

    def _unexplained(self) -> str:
        """Return the words without what explains them."""
        words = re.sub(r"(?<=remove it): .*|; own code is .*", "", self.words)
        return _PARENTHESES.sub("", words)

    def _at(self, name: str) -> str:
        return absolute(name, self.path, self.cause)

    def _ask(self, name: str = "") -> Choice:
        return (
            Change(
                act=Act.ASK,
                path=self._at(name or self.path),
                value=self.words,
            ),
        )

    def _set(self, name: str, value: Any) -> Choice:
        return (Change(act=Act.SET, path=self._at(name), value=value),)

    def _form(self) -> tuple[tuple[Choice, ...], bool] | None:
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
            return ((Change(act=Act.REMOVE, path=f"{self.path}.{value}"),),), False
        return None

    def _renamed(self) -> tuple[tuple[Choice, ...], bool] | None:
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
        if self.id not in _RENAMED or found is None:
            return None
        to = found["to"]
        is_flag = self.path.startswith("recipe.") and not to.startswith("recipe.")
        if self.id != "key-unknown" or (is_flag and "of recipe.args" in self.words):
            to = f"recipe.args.{to}"
        is_same = "if you mean" not in self.words and self.id != "label-smoothing-factor"
        return ((Change(act=Act.MOVE, path=self.path, value=to),),), is_same

    def _flag_name(self) -> tuple[tuple[Choice, ...], bool] | None:
        given, to = _TEXT.match(self.cause), self.words.removeprefix("use ")
        if given is None:
            return None
        name = str(json.loads(given[0]))
        if name.lstrip("-").replace("-", "_") != to:
            return ((Change(act=Act.REMOVE, path=f'recipe.args["{name}"]'),),), False
        old = f'recipe.args["{name}"]'
        return ((Change(act=Act.MOVE, path=old, value=f"recipe.args.{to}"),),), True

    def _nearest(self) -> tuple[tuple[Choice, ...], bool] | None:
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
        return (self._set(self.path, near), self._ask()), False

    def _one_of_two(self) -> tuple[tuple[Choice, ...], bool] | None:
        """Read ``remove one``: the value or another that the cause names."""
        both = re.match(r"(?:sets )?(\w+) and (\w+)(?: set)?$", self.cause)
        if both and re.match(r"set (?:exactly )?one of", self.words):
            return tuple(self._removed(f"{self.path}.{each}") for each in both.groups()), False
        is_one = re.match(r"(?:remove|set) one(?: of them| of the two)?\b", self.words)
        if not is_one or self.cause.startswith("empty") or "to false" in self.words:
            return None
        mine = self.path.rpartition(".")[2]
        plain = _TEXT.sub("", self.cause)
        named = [each for each in _OTHERS.findall(plain) if "_" in each or "." in each]
        after = re.findall(r"(?:with|and|of|requires) ([a-z]\w+)\b(?! is set twice)", plain)
        others = dict.fromkeys(
            each for each in (*named, *after) if each not in (mine, "kubernetes")
        )
        paths = [self._at(each) for each in others]
        if self.id in _OF_LISTS:
            paths = []
        known = [path for path in paths if path.startswith("recipe.args.") or is_key(path)]
        known = [path for path in known if not any(p.startswith(f"{path}.") for p in known)]
        removed = [(Change(act=Act.REMOVE, path=path),) for path in (self.path, *known)]
        is_list = self.id in _OF_LISTS
        return ((self._ask(),) if is_list else (*removed, *([] if known else [self._ask()]))), False

    def _numbers(self) -> tuple[tuple[Choice, ...], bool] | None:
        """Read a number that has to be a multiple, and sizes that have to divide."""
        found = re.fullmatch(r"use a multiple of (\d+)", self.words)
        given = re.match(r"\d+", self.cause)
        if found and given:
            step, number = int(found[1]), int(given[0])
            near = [each for each in (number // step * step, -(-number // step) * step) if each]
            return tuple(self._set(self.path, each) for each in near), False
        if self.words.startswith(("change the sizes", "change the layout")):
            names = re.findall(r"([a-z]\w+_size) (\d+)", self.cause)
            sizes = [f"recipe.args.{name}" for name, size in names if int(size) > 1]
            return tuple(self._ask(each) for each in (*sizes, "nodes", "gpusPerNode")), False
        return None

    def _part(self, part: str, before: Sequence[Choice] = ()) -> list[Choice]:
        """Return the choices of one alternative, which may continue the one before."""
        both = re.split(rf" and (?=set {_NAME}|{_NAME}: )", part)
        if len(both) > 1:
            made = [self._part(each)[0] for each in both]
            return [tuple(change for choice in made for change in choice)]
        if found := self._own_form(part):
            return found
        if re.fullmatch(
            r"remove (?:it|them|th(?:is|e) (?:flag|key|value|mount|script))(?: and refer"
            r" to a Secret.*| for .*| and put it.*)?",
            part,
        ):
            other = re.match(r"(?:empty|missing)\b.* ([\w.]+) is set", self.cause)
            path = other[1] if other else self.path
            return [self._ask() if self.id in _INSIDE else self._removed(path)]
        if (
            re.fullmatch(r"[\w.-]+(?: without quotes)?", part)
            and before
            and before[-1][0].act is Act.SET
        ):
            return [self._set(before[-1][0].path, yaml.safe_load(part.partition(" ")[0]))]
        if part == "remove that flag" and (other := re.search(r"and (\w+) is", self.cause)):
            return [self._removed(self._at(other[1]))]
        if only := re.fullmatch(r"remove ([a-z]\w+)", part):
            return [self._ask() if only[1] == "some" else self._removed(self._at(only[1]))]
        if two := re.fullmatch(rf"set ({_NAME}) and ({_NAME})", part):
            return [(*self._ask(two[1]), *self._ask(two[2]))]
        if sets := _SETS.match(part):
            return [self._sets(sets["name"], sets["value"])]
        if own := re.fullmatch(r"set it to (\S+)", part):
            it = re.search(r"requires ([a-z]+_\w+) with", self.cause)
            return [self._set(it[1] if it else self.path, yaml.safe_load(own[1]))]
        if listed := re.fullmatch(r"use (?:one of )?(?P<words>.+)", part):
            return self._used(listed["words"], part)
        lacking = re.search(
            r"and ([a-z]\w*(?:\.\w+)+) is (?:empty|missing|not [a-z]+)$", self.cause
        )
        if lacking and part.startswith(("set the ", "set it")):
            other = re.search(r"is not (\w+)$", self.cause)
            return [self._set(lacking[1], other[1]) if other else self._ask(lacking[1])]
        if part == "set that" and (without := re.search(r"without (\w+): (\w+)", self.cause)):
            return [self._set(*without.groups())]
        if another := re.fullmatch(r"(?:choose|use) another ([a-z]\w*\.\w+)", part):
            return [self._ask(another[1])]
        if merged := re.match(
            r"merge it into (recipe.model).* and remove it|list .* in (\w+) inst", part
        ):
            return [(*self._removed(self.path), *self._ask(merged[1] or merged[2]))]
        named = _NAMES.fullmatch(re.sub(r",? (?:e\.g\.|such as) .*", "", part))
        if key := re.fullmatch(r"(?:use )?another ([a-z]+[A-Z]\w+)", part):
            return [self._ask(key[1])]
        if named and named["name"] not in PRONOUNS:
            same = named["name"].rpartition(".")[2] == self.path.rpartition(".")[2]
            return [self._named(named["name"]) if same else self._ask(named["name"])]
        if missing := _MISSING.search(self.cause):
            return [self._ask(missing["flag"])]
        return [self._ask()]

    def _own_form(self, part: str) -> list[Choice]:
        """Return the choices of words that few remedies have."""
        name = self.cause.partition(" ")[0]
        if self.id == "resource-gpu":
            sides = [self._removed(f"{self.path}.{side}.{name}") for side in ("limits", "requests")]
            return [(*sides[0], *sides[1]), *sides]
        if self.id == "annotation-value":
            return [self._ask(f"{self.path}.{name}"), self._removed(f"{self.path}.{name}")]
        if part.startswith("list it once") or part.startswith("write them into recipe.script"):
            return [self._removed(self.path)]
        if part == "use another workspace":
            return [self._ask("workspace"), self._removed(self.path)]
        if part == "set one to false":
            return [self._set("stages.train.skip", False)]
        return []

    def _removed(self, path: str) -> Choice:
        if self.id in ("claim-name", "mount-token"):
            path = path.removesuffix(".name")
        return (Change(act=Act.REMOVE, path=path),)

    def _sets(self, name: str, text: str) -> Choice:
        if _OPEN.search(text):
            return self._ask(name)
        if text.startswith("and "):
            return self._ask()
        text = re.sub(r" for .*|, (?:whose|which|so|if|where) .*| if the .*", "", text)
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return self._ask(name)
        is_prose = isinstance(value, str) and " " in value
        is_prose = is_prose or (isinstance(value, dict) and text[0] != "{")
        return self._ask(name) if is_prose else self._set(name, value)

    def _named(self, name: str) -> Choice:
        """Return the use of another key or flag in place of the refused one."""
        if name in PRONOUNS:
            return self._ask()
        to = self._at(name)
        if to != self.path and to.rpartition(".")[2] == self.path.rpartition(".")[2]:
            return (Change(act=Act.MOVE, path=self.path, value=to),)
        return (*self._removed(self.path), *self._ask(name))

    def _used(self, words: str, part: str) -> list[Choice]:
        """Return the choices of ``use A``, ``use A, B or C``."""
        words = words.removesuffix(" without quotes")
        is_form = "://" in self.words or "/name" in self.words
        if self.id == "network-resource-no-device":
            old = f"{self.path}.{self.cause.partition(' ')[0]}"
            return [(Change(act=Act.MOVE, path=old, value=words),)]
        if is_form or _RANGE.match(part) or _OPEN.search(words) or self.id in _RENAMED:
            return [self._ask()]
        texts = [words] if words[0] in "[{" else [each.strip() for each in _LISTED.split(words)]
        if words[0] not in "[{" and any(" " in each or not each for each in texts):
            return [self._ask()]
        if self.id == "value-name":
            level = self.path.rpartition(".")[0]
            return [(Change(act=Act.MOVE, path=self.path, value=f"{level}.{n}"),) for n in texts]
        if self.id == "workspace-shared":
            return [self._named(f"workspace.{each}") for each in texts]
        if any(is_name(each) for each in texts):
            return [self._named(each) if is_name(each) else self._ask() for each in texts]
        target, wants = self.path, _WANTS.search(self.cause)
        if wants and texts[0] in re.split(r", | or ", wants["words"]):
            target = wants["flag"]
        return [self._set(target, yaml.safe_load(each)) for each in texts]
