"""The examples in the docstrings hold."""

import ast
import doctest
import functools
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRAINING_ONLY = {
    "datasets",
    "mcore_bridge",
    "megatron",
    "pyarrow",
    "swift",
    "torch",
    "transformer_engine",
    "transformers",
}
"""Packages of the training image, absent where the tests run."""


@functools.cache
def _imports(path: Path) -> tuple[bool, frozenset[Path]]:
    """Return whether a module imports the training image's packages, and our modules it imports."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    own = (ROOT / f"{name.replace('.', '/')}.py" for name in found)
    is_training = not TRAINING_ONLY.isdisjoint(name.partition(".")[0] for name in found)
    return is_training, frozenset(filter(Path.is_file, own))


def _needs_training_image(path: Path) -> bool:
    """Return whether a module, or one of ours that it imports, needs the training image."""
    seen: set[Path] = set()
    waiting = {path}
    while waiting:
        is_training, own = _imports(each := waiting.pop())
        if is_training:
            return True
        seen.add(each)
        waiting |= own - seen
    return False


SOURCES = sorted(
    path
    for folder in ("launchers", "scripts", "tests/e2e/cluster", "tests/bench")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.startswith(("__", "test_", "fake_", "conftest"))
    and not _needs_training_image(path)
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_module_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
