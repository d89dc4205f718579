"""All mistakes of values in one round: those of the schema, and those that the templates find.

Each value that the schema refuses is replaced by its default, and the chart is rendered without the
schema: the relations of the other values are judged as well.
"""

import base64
import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from launchers.rules import table
from launchers.rules.engine import Multiple
from launchers.yaml_file import read_yaml
from scripts.values import relations, rendered, schema
from scripts.values.flags import CHART

Values = dict[str, Any]
OURS = "the values cannot work:"
"""The chart's words before its lines (validate/_validate.tpl)."""
FIRST = re.compile(r"\[(character|secret-[a-z-]+)\]$")
"""Ids of what the templates refuse before they judge a relation."""
OWNED = "[pod-spec-owned]"
_CREDENTIAL = re.compile(r"secret[a-z-]*\]$")
_PATH = re.compile(r"[^:]+")
_PRINTED = re.compile(r"^values: (\S+)$", re.MULTILINE)
TEMPLATE = "values: {{ toJson .Values | b64enc }}\n"
"""Of a chart that prints the values as Helm merges and reads them."""


def encoded(document: object) -> str:
    r"""Return a document as JSON that Go's YAML parser reads too.

    It has no surrogate pairs, control characters or line breaks that only YAML 1.1 knows.

    >>> print(encoded("\x7f\U0001f60d"))
    "\u007f😍"
    """
    text = json.dumps(document, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", text
    )


class Engine(Protocol):
    """Helm, with one release's name, values files and assignments."""

    def merged(self, chart: Path) -> str:
        """Return what another chart renders with the user's values; empty if Helm refuses them."""

    def rendered(self, values: str) -> tuple[str, str]:
        """Render the chart with other values, without the schema.

        Returns:
            The manifests, and the refusal of the templates; one of them is empty.
        """


def printer(folder: Path) -> Path:
    """Write a chart that prints its values, with the chart's defaults, into an empty folder."""
    (folder / "templates").mkdir()
    (folder / "templates" / "values.yaml").write_text(TEMPLATE, encoding="utf-8")
    (folder / "values.yaml").write_bytes((CHART / "values.yaml").read_bytes())
    text = "apiVersion: v2\nname: megatron-dpo\nversion: 0.0.0\n"
    (folder / "Chart.yaml").write_text(text, encoding="utf-8")
    return folder


def lines(engine: Engine, chart: Path, manifests: str = "") -> list[str]:
    """Return every mistake of a user's values as ``path: cause; remedy [id]``.

    ``manifests`` are empty if Helm refuses the values.

    Returns:
        Nothing if Helm cannot read the values, or refuses them for another reason.
    """
    printed = _PRINTED.search(engine.merged(chart))
    if printed is None:
        return []
    values = json.loads(base64.b64decode(printed[1]))
    return _related(with_defaults(values), manifests) if manifests else judge(values, engine)


def _related(values: Values, manifests: str) -> list[str]:
    """Return the relations that neither schema nor templates judge.

    ``values`` have the chart's defaults; ``manifests`` are empty if the templates refuse them.
    """
    found = relations.refusals(values)
    found += rendered.refusals(values, manifests) if manifests else []
    return list(map(str, found))


def judge(values: Values, engine: Engine) -> list[str]:
    """Return every mistake of merged values as ``path: cause; remedy [id]``."""
    given = _filled(values, _defaults(), dict.fromkeys)  # Helm leaves out keys that are null
    manifests, refusal = engine.rendered(encoded(given))
    said = _said(refusal)
    first = [line for line in said if FIRST.search(line)]
    hidden = [each for each in relations.blanks(values) if not _holds(map(_path, first), each.path)]
    first += map(str, hidden)
    replaced = [_path(line) for line in first]
    judged = schema.mistakes(with_defaults(values))
    wrong = [each for each in judged if not each.is_relation]
    kept = [each for each in wrong if each.is_unknown_key or not _holds(replaced, each.path)]
    # what the chart decides has any type here, and is said by itself
    owned = [each.path for each in judged if each.line.endswith(OWNED)]
    unknown = [*owned, *(each.path for each in wrong if each.is_unknown_key)]
    replaced += [each.path for each in wrong if not each.is_unknown_key]
    for path in (*replaced, *unknown):
        reset(values, path, alone=path in unknown)
        reset(given, path, alone=path in unknown)
    for key in [key for key in values if not schema.is_valid(values[key], key)]:
        replaced.append(key)
        del values[key]
        given.pop(key, None)
    if first or wrong or owned:
        manifests, refusal = engine.rendered(encoded(given))
        said = _said(refusal)
    said = [*(each.line for each in judged if each.is_relation), *said]
    said += _related(with_defaults(values), manifests)
    own = [line for line in said if line not in first and _is_own(line, replaced)]
    return [*first, *(each.line for each in kept), *dict.fromkeys(own)]


def reset(values: Values, path: str, *, alone: bool = False) -> None:
    """Remove the value at a path, or the list or the map without defaults that holds it.

    ``alone``: of such a map the key alone, which is unknown.

    >>> values = {"nodes": "x", "image": {"tag": 1, "repository": "a"}, "tolerations": [{}]}
    >>> for path in ("nodes", "image.tag", "tolerations[0].key"):
    ...     reset(values, path)
    >>> values
    {'image': {'repository': 'a'}}
    >>> values = {"workspace": {"nfs": {"host": "a", "path": "/"}}}
    >>> reset(values, "workspace.nfs.host", alone=True)
    >>> values
    {'workspace': {'nfs': {'path': '/'}}}
    """
    below: Any = values
    defaults: Any = _defaults()
    while True:
        rest = path.lstrip(".")
        on_path = [key for key in below if rest == key or rest.startswith((f"{key}.", f"{key}["))]
        if not on_path:
            return
        key = max(on_path, key=len)
        path = rest[len(key) :]
        default = defaults.get(key) if isinstance(defaults, Mapping) else None
        if path and isinstance(below[key], dict) and (alone or isinstance(default, Mapping)):
            below, defaults = below[key], default
        else:
            del below[key]
            return


@cache
def _defaults() -> Values:
    found: Values = read_yaml(CHART / "values.yaml")
    return found


def with_defaults(values: Values) -> Values:
    """Return values as the schema's relations read them: with the chart's defaults."""
    return _filled(values, _defaults())


def _filled(
    values: Values,
    defaults: Mapping[str, Any],
    missing: Callable[[Mapping[str, Any]], Mapping[str, Any]] = copy.deepcopy,
) -> Values:
    """Return values with the keys that a null removed, each with its default by default."""
    found: Values = dict(missing({k: v for k, v in defaults.items() if k not in values}))
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, Mapping):
            found[key] = _filled(value, default, missing)
        else:
            found[key] = copy.deepcopy(value)
    return found


def _said(refusal: str) -> list[str]:
    """Return the chart's lines; none if Helm refuses in other words."""
    text = refusal.partition(OURS)[2]
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


def _path(line: str) -> str:
    found = _PATH.match(line)
    return found[0] if found else ""


def _plain(path: str) -> str:
    return path.partition("[")[0]


def _holds(paths: Iterable[str], path: str) -> bool:
    return any(path.startswith(_plain(each)) for each in paths)


def _is_own(line: str, replaced: Collection[str]) -> bool:
    """Return whether a line does not follow from a value that was replaced.

    Such a value is judged again once it is right. A line about a credential stays, since it depends
    on no other value.
    """
    if _CREDENTIAL.search(line):
        return True
    path = _path(line)
    reads = _read_by_rule().get(line.rpartition("[")[2].rstrip("]"), frozenset())
    for wrong in replaced:
        plain = _plain(wrong)
        *above, last = plain.split(".")
        is_flag = above[:2] == ["recipe", "args"]
        name = last if (above[:1] == ["recipe"] and len(last) > 3) else plain
        # messages about keys of the same map name them without it
        if len(above) > 1 and path.startswith(".".join(above)):
            name = last
        is_named = re.search(rf"(^|[^A-Za-z0-9_.]){re.escape(name)}([^A-Za-z0-9_]|$)", line)
        is_above = not path.startswith("recipe.args") and plain.startswith(f"{path}.")
        if path.startswith(plain) or is_above or is_named:
            return False
        if (above[2:3] or [last])[0] in reads if is_flag else plain in reads:
            return False
    return True


@cache
def _read_by_rule() -> Mapping[str, frozenset[str]]:
    """Return the flags and keys that each rule reads, by the rule's id."""
    found: dict[str, set[str]] = {}
    for rule in (rule for rows in table.ROWS.values() for rule in rows):
        gang = ("nodes", "gpusPerNode") if isinstance(rule, Multiple) else ()
        own = (condition.flag for condition in rule.when)
        found.setdefault(rule.id, set()).update((*gang, *own, *rule.flags()))
    return {id: frozenset(read) for id, read in found.items()}
