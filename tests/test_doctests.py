"""The examples in the docstrings hold."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRAINING_ONLY = "datasets mcore_bridge megatron pyarrow swift torch transformer_engine transformers"
"""Packages of the training image, absent where the tests run."""


SOURCES = sorted(
    path
    for folder in ("launchers", "scripts", "tests/e2e/cluster", "tests/bench")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.startswith(("__", "test_", "fake_", "conftest"))
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_module_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as absent:
        if (absent.name or "").partition(".")[0] not in TRAINING_ONLY.split():
            raise
        pytest.skip("the training image has what it imports")
    assert doctest.testmod(module).failed == 0
