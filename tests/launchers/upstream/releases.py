"""The sources of upstream that ``make setup`` lays out, by the root of their packages."""

import ast
from pathlib import Path

import pytest

from launchers.upstream.patches import SOURCES
from scripts.dev.flags import site_packages
from tests.engines.fetch import PACKAGE, WHEELS, folder
from tests.launchers.training_environment import OLDEST, PINNED, STACKS, Stack


def _roots(stack: Stack) -> dict[tuple[str, str], Path]:
    site = site_packages(stack.train) if stack.python.exists() else stack.train
    core = {} if stack is OLDEST else {("megatron-core", stack.core): stack.oracle}
    return core | {
        ("mcore-bridge", stack.bridge): stack.oracle,
        ("ms-swift", stack.swift): site,
        ("transformers", stack.transformers): site,
    }


_FOUND: dict[tuple[str, str], Path] = {
    (("transformer-engine" if package == PACKAGE else package), version): folder(wheel)
    for wheel in WHEELS
    for package, version in (wheel,)
}
for _stack in STACKS.values():
    _FOUND |= _roots(_stack)
ROOTS = tuple((*wheel, root) for wheel, root in _FOUND.items())
"""Distribution, version, and the folder in which its packages lie; oldest releases first."""
_PINNED = {
    "mcore-bridge": PINNED.bridge,
    "megatron-core": PINNED.core,
    "ms-swift": PINNED.swift,
    "transformers": PINNED.transformers,
}
needs_releases = pytest.mark.skipif(
    not all(stack.is_installed for stack in STACKS.values())
    or not all(root.exists() for _, _, root in ROOTS),
    reason="no .tools/train, .tools/oracle or .tools/engines: run `make setup`",
)


def root(package: str, version: str) -> Path:
    """Return the folder of a distribution's packages, of one release.

    ``version``: ``first``, ``last``, ``image`` for that of the default image, or a release.
    """
    found = {v: r for p, v, r in ROOTS if p == package}
    last = list(found)[-1]
    named = {"first": next(iter(found)), "last": last, "image": _PINNED.get(package, last)}
    return found[named.get(version, version)]


def path(package: str, module: str, version: str) -> Path:
    return root(package, version) / f"{module.replace('.', '/')}.py"


def edited(text: str, name: str) -> str:
    """Return a file's text with a comment behind the last line of one function.

    >>> edited("class A:\\n    def f(self):\\n        pass\\n", "A.f")
    'class A:\\n    def f(self):\\n        pass  # edited\\n'
    """
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(n for n in ast.walk(node) if getattr(n, "name", None) == part)
    lines = text.split("\n")
    assert isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno is not None
    lines[node.end_lineno - 1] += "  # edited"
    return "\n".join(lines)


def functions(package: str) -> list[tuple[str, str]]:
    """Return modules and names of a distribution's functions that were read."""
    return [(module, name) for module, names in SOURCES[package].items() for name in names]
