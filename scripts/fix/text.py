"""Edit the text of a values file: one value changes, comments and all other lines stay."""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from scripts.fix.change import changed
from scripts.problem import Problem

Path = tuple[str | int, ...]
_STEP = re.compile(r'\.?(?:\[(?P<index>\d+)\]|\["(?P<quoted>[^"]*)"\]|(?P<key>[^.\[]+))')
_AFTER_KEY = re.compile(r"\s*:")


class NotEdited(Problem):
    """A text that cannot be changed like this; nothing is written."""


def resolved(path: str, values: Any) -> Path:
    """Return the keys of a path; a key with dots counts as one where the values have it.

    >>> resolved("a.b/c.d[0].e", {"a": {"b/c.d": [{}]}})
    ('a', 'b/c.d', 0, 'e')
    >>> resolved('a[""]', {"a": {"": 1}})
    ('a', '')
    """
    found: list[str | int] = []
    rest = path
    while rest:
        keys = values if isinstance(values, dict) else {}
        plain = rest.removeprefix(".")
        named = (k for k in map(str, keys) if k and plain.startswith(k))
        own = [k for k in named if not plain[len(k) :] or plain[len(k)] in ".["]
        step = _STEP.match(rest)
        if own:
            key: str | int = max(own, key=len)
            rest = plain[len(str(key)) :]
        elif step is None:
            raise NotEdited(f"{path} is not a path of values")
        else:
            name = step["key"] if step["quoted"] is None else step["quoted"]
            key = int(step["index"]) if step["index"] else name
            rest = rest[step.end() :]
        found.append(key)
        if isinstance(values, list):
            values = values[key] if isinstance(key, int) and key < len(values) else None
        else:
            values = keys.get(key)
    return tuple(found)


class _Loader(yaml.SafeLoader):
    """Reads times such as 2026-12-01 and 8:30 as texts, as Helm does."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        found: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_time = kind is yaml.ScalarNode and (
            found.endswith(":timestamp") or (":" in value and found.endswith((":int", ":float")))
        )
        return self.DEFAULT_SCALAR_TAG if is_time else found


def read(text: str) -> Any:
    """Return a text's values.

    Raises:
        NotEdited: it is not YAML, or has line breaks that only old editors know.

    >>> read("{a: 2026-12-01T08:00:00Z, b: 8:30, c: 1.5}")
    {'a': '2026-12-01T08:00:00Z', 'b': '8:30', 'c': 1.5}
    """
    if "\r" in text.replace("\r\n", ""):
        raise NotEdited("a line ends with a carriage return alone; save it with line feeds")
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise NotEdited(f"not YAML: {error}") from None


def set_value(text: str, path: Path, value: Any, *, merges: bool = True) -> str:
    """Return the text with one more or another value; a map is merged into a map by default.

    Raises:
        NotEdited: no edit of the text gives exactly these values.
    """
    values = read(text)
    try:
        wanted = changed(values, path, value, merges=merges)
    except KeyError:
        raise _not_edited(path) from None
    merges = (
        merges and bool(value) and isinstance(value, dict) and isinstance(_at(values, path), dict)
    )
    made = text
    for end, each in value.items() if merges else ():
        made = _set(made, (*path, end), each)
    return _verified(made if merges else _set(text, path, value), wanted, path)


def remove(text: str, path: Path) -> str:
    """Return the text without a value; errors as of ``set_value``."""
    try:
        wanted = changed(read(text), path, None, removes=True)
    except KeyError:
        raise _not_edited(path) from None
    return _verified(_remove(text, path), wanted, path)


def rename(text: str, path: Path, key: str) -> str:
    """Return the text with another name of a key; errors as of ``set_value``."""
    values = read(text)
    *above, old = path
    level = _at(values, tuple(above))
    if not isinstance(level, dict) or key in level:
        raise _not_edited(path)
    wanted = changed(values, above, {})
    for each, value in level.items():
        wanted = changed(wanted, (*above, key if each == old else each), value)
    _, name, _ = _entry(_root(text), path)
    made = text[: _from(name)] + _flow(key) + text[_to(name) :]
    return _verified(made, wanted, path)


def quote(text: str, path: Path) -> str:
    """Return the text with a value in quotes as it is written; errors as of ``set_value``."""
    _, _, node = _entry(_root(text), path)
    if not isinstance(node, yaml.ScalarNode) or node.style:
        raise _not_edited(path)
    return set_value(text, path, text[_from(node) : _to(node)])


def _at(values: Any, path: Path) -> Any:
    for key in path:
        inside = isinstance(values, dict) or (isinstance(values, list) and isinstance(key, int))
        if not inside or (isinstance(values, list) and int(key) >= len(values)):
            return None
        values = values.get(key) if isinstance(values, dict) else values[int(key)]
    return values


def _verified(text: str, wanted: Any, path: Path) -> str:
    if read(text) != wanted:
        raise _not_edited(path)
    return text


def _not_edited(path: Sequence[str | int]) -> NotEdited:
    return NotEdited(f"{'.'.join(map(str, path))} cannot be changed in this file; edit it by hand")


def _root(text: str) -> yaml.Node | None:
    return yaml.compose(text, yaml.SafeLoader)


def _from(node: yaml.Node) -> int:
    return int(node.start_mark.index)


def _to(node: yaml.Node) -> int:
    """Return the end of a node, without the comments and blank lines that follow it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _to(last[1] if isinstance(last, tuple) else last)


def _entry(root: yaml.Node | None, path: Path) -> tuple[yaml.CollectionNode, yaml.Node, yaml.Node]:
    """Return the collection that holds a value, the node of its key (of an item: itself), its node.

    Raises:
        NotEdited: the text has no such value.
    """
    parent, name, node = root, root, root
    for key in path:
        parent, name, node = node, None, None
        if isinstance(parent, yaml.MappingNode):
            for each, value in parent.value:
                if each.value == key:
                    name, node = each, value
        elif isinstance(parent, yaml.SequenceNode) and isinstance(key, int):
            name = node = parent.value[key] if key < len(parent.value) else None
        if node is None:
            break
    if not isinstance(parent, yaml.CollectionNode) or name is None or node is None:
        raise _not_edited(path)
    return parent, name, node


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    width = float("inf")
    made = yaml.safe_dump(
        value, default_flow_style=True, width=width, allow_unicode=True, sort_keys=False
    )
    return str(made).removesuffix("...\n").removesuffix("\n").removesuffix("\n...")


def _set(text: str, path: Path, value: Any) -> str:
    root = _root(text)
    for length in range(len(path), 0, -1):
        try:
            parent, name, node = _entry(root, path[:length])
        except NotEdited:
            continue
        rest = path[length:]
        if rest and isinstance(node, yaml.MappingNode) and node.value:
            return _added(text, node, rest, value)
        for key in reversed(rest):
            value = {key: value}
        begin, end = _from(node), _to(node)
        is_block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        if isinstance(parent, yaml.MappingNode) and (is_block or begin == end):
            colon = _AFTER_KEY.match(text, _to(name))
            assert colon is not None
            begin = colon.end()
            return f"{text[:begin]} {_flow(value)}{text[max(begin, end) :]}"
        line_break = "\n" if text[begin:end].endswith("\n") else ""
        return text[:begin] + _flow(value) + line_break + text[end:]
    if isinstance(root, yaml.MappingNode) and root.value:
        return _added(text, root, path, value)
    return text + ("" if text.endswith("\n") or not text else "\n") + _lines(path, value, "", "\n")


def _added(text: str, node: yaml.MappingNode, path: Path, value: Any) -> str:
    """Return the text with one more entry of a map that has some."""
    end = _to(node)
    if node.flow_style:
        for key in reversed(path):
            value = {key: value}
        return f"{text[: end - 1].rstrip()}, {_flow(value)[1:-1]}{text[end - 1 :]}"
    first = node.value[0][0].start_mark
    newline = "\r\n" if "\r\n" in text else "\n"
    is_block_text = text[:end].endswith("\n")
    line = end if is_block_text else text.find("\n", end) + 1 or len(text)
    before = text[:line] if text[:line].endswith("\n") else text[:line] + newline
    return before + _lines(path, value, " " * first.column, newline) + text[line:]


def _lines(path: Path, value: Any, indent: str, newline: str) -> str:
    """Return an entry as lines, one for each level."""
    made = ""
    for depth, key in enumerate(path):
        last = f" {_flow(value)}" if depth == len(path) - 1 else ""
        made += f"{indent}{'  ' * depth}{_flow(key)}:{last}{newline}"
    return made


def _remove(text: str, path: Path) -> str:
    parent, name, node = _entry(_root(text), path)
    starts = [_from(each[0] if isinstance(each, tuple) else each) for each in parent.value]
    ends = [_to(each[1] if isinstance(each, tuple) else each) for each in parent.value]
    place, begin = starts.index(_from(name)), _from(name)
    end = max(ends[place], _to(name))
    if len(starts) == 1 and len(path) > 1:
        return _set(text, path[:-1], [] if isinstance(parent, yaml.SequenceNode) else {})
    if parent.flow_style:
        if place + 1 < len(starts):
            return text[:begin] + text[starts[place + 1] :]
        return text[: ends[place - 1]] + text[end:] if place else text[:begin] + text[end:]
    line = text.rfind("\n", 0, begin) + 1
    following = end if text[:end].endswith("\n") else text.find("\n", end) + 1 or len(text)
    before = text[line:begin].strip().removesuffix("?").strip()
    if isinstance(parent, yaml.SequenceNode):
        before = before.removesuffix("-").strip()
    if before:  # the first entry behind a dash or a key
        return text[:begin] + text[starts[place + 1] :]
    return text[:line] + text[following:]
