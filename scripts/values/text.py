"""What Helm reads from a values file otherwise than a person wrote it, from the file's text."""

import re
from collections.abc import Iterator

import yaml

from launchers.yaml_file import LOADER
from scripts.values.paths import path

_TEXT = "tag:yaml.org,2002:str"
_DEEPEST = 200
"""Levels of a values file that are read; the shipped ones have at most a dozen."""
QUOTES = "“”„‘’‚"
"""Typographic ones, which an editor writes in place of straight ones."""
_QUOTED = re.compile(f"[{QUOTES}].*[{QUOTES}]$", re.DOTALL)
_OCTAL = re.compile(r"[-+]?0[0-9_]+")
"""YAML 1.1, as Helm reads it: 010 is 8, and 08 a text."""


def mistakes(text: str, file: str) -> list[str]:
    r"""Return each mistake as ``path: cause; remedy [id]``; none of a text that is not YAML.

    >>> mistakes("a: 1\nb: 2\na: 2\n", "x.yaml")[0]
    'a: written twice, in lines 1 and 3 of x.yaml, of which Helm reads one; remove one [text-twice]'
    """
    try:
        if _depth(text) > _DEEPEST:
            return []  # the parser itself would end the process; Helm refuses the file
        documents = [node for node in yaml.compose_all(text, LOADER) if not _is_empty(node)]
    except yaml.YAMLError:
        return []
    found = [line for node in documents[:1] for line in _below(node, [], file, set())]
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1
        found.append(
            f"{file}: a second document begins before line {line}, which not every Helm reads; "
            "remove the line ---, or give two files with -f [text-documents]"
        )
    return found


def _depth(text: str) -> int:
    """Return how many levels of lists and maps a text has at most, up to one above the limit."""
    depth = deepest = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        deepest = max(deepest, depth)
        if deepest > _DEEPEST:
            break
    return deepest


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value


def _below(node: yaml.Node, at: list[str | int], file: str, seen: set[int]) -> Iterator[str]:
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _below(item, [*at, position], file, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            below = [*at, str(key.value)]
            line = key.start_mark.line + 1
            if before := lines.get(str(key.value)):
                yield (
                    f"{path(below)}: written twice, in lines {before} and {line} of "
                    f"{file}, of which Helm reads one; remove one [text-twice]"
                )
            lines[str(key.value)] = line
            yield from _below(value, below, file, seen)
    elif isinstance(node, yaml.ScalarNode) and not node.style and _QUOTED.match(node.value):
        yield (
            f"{path(at)}: typographic quotes, which YAML reads as a part of the text; use straight "
            "ones [text-quotes]"
        )
    elif (
        isinstance(node, yaml.ScalarNode)
        and not node.style
        and (node.tag != _TEXT or set(node.value) & {"8", "9"})  # otherwise it has the tag !!str
        and _OCTAL.fullmatch(node.value)
        and not _is_mode(at)
    ):
        yield (
            f"{path(at)}: Helm reads {node.value} as an octal number; remove the first 0, "
            "or quote it if a text is meant [text-octal]"
        )


def _is_mode(at: list[str | int]) -> bool:
    """Return whether a path is the mode of a file, for which an octal number is right."""
    return str(at[-1] if at else "").lower().endswith("mode")
