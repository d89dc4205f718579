"""Ids of refusals are stable names: one place in the source each, in kebab-case."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import launchers
from launchers.rules import table

KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def test_each_id_is_written_at_one_place() -> None:
    found = Counter(id for file in sorted(launchers.PACKAGE.rglob("*.py")) for id in ids(file))
    assert len(found) > 200
    assert [id for id, places in found.items() if places > 1] == []
    assert [id for id in found if not KEBAB.fullmatch(id)] == []


def test_a_rule_has_the_same_id_for_several_flags_only() -> None:
    for rows in (*table.ROWS.values(), *table.UNWISE.values()):
        named: dict[str, str] = {}
        for rule in rows:
            assert named.setdefault(rule.id, type(rule).__name__) == type(rule).__name__


def ids(file: Path) -> Iterator[str]:
    """Yield the ids of a module: keywords ``id``, and first arguments of its own functions."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    takes_id = {f.name for f in functions if f.args.args[:1] and f.args.args[0].arg == "id"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "id"]
            if isinstance(node.func, ast.Name) and node.func.id in takes_id:
                given += node.args[:1]
            values = (each.value for each in given if isinstance(each, ast.Constant))
            yield from (value for value in values if isinstance(value, str))
