"""The examples in the docstrings hold."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# They register themselves with ms-swift when they are imported, or need torch.
ELSEWHERE = {
    ROOT / "scripts" / "demo" / "docstring_pairs.py",
    *ROOT.glob("launchers/swift_*.py"),
    *ROOT.glob("tests/gpu/plugins/*.py"),
    *ROOT.glob("tests/gpu/kernels/*.py"),
    ROOT / "tests" / "gpu" / "variants" / "edge.py",
}
SOURCES = sorted(
    path
    for folder in ("launchers", "scripts", "tests/e2e/cluster", "tests/gpu")
    for path in (ROOT / folder).rglob("*.py")
    if path not in ELSEWHERE and not path.name.startswith(("__", "test_", "fake_", "conftest"))
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_module_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
