"""Paths of the training environments of `make setup`: real ms-swift and torch for CPU.

The tests run with the pinned ms-swift; ``SWIFT=4.6.0``, as of ``make test-next``, with another one.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from launchers.flags import installed
from scripts.dev.flags import site_packages
from scripts.helm import ROOT


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A release of ms-swift and the packages that are installed with it."""

    swift: str
    transformers: str
    bridge: str
    core: str
    """megatron-core of the oracle; only sources that run with the tests' Python."""

    @property
    def suffix(self) -> str:
        """Return the end of the names of its folders in ``.tools``."""
        return "" if self is PINNED else f"-{self.swift}"

    @property
    def train(self) -> Path:
        return ROOT / ".tools" / f"train{self.suffix}"

    @property
    def oracle(self) -> Path:
        """Return the folder of mcore-bridge and megatron-core (tests/differential)."""
        return ROOT / ".tools" / f"oracle{self.suffix}"

    @property
    def python(self) -> Path:
        return self.train / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        return self.python.exists() and self.oracle.exists()


OLDEST = Stack(swift="4.4.1", transformers="5.12.1", bridge="1.6.0", core="0.16.1")
PINNED = Stack(swift="4.5.3", transformers="5.16.1", bridge="1.6.5", core="0.18.2")
NEXT = Stack(swift="4.6.0", transformers="5.19.0", bridge="1.6.5", core="0.19.2")
STACKS = {stack.swift: stack for stack in (OLDEST, PINNED, NEXT)}
"""By ms-swift, oldest first."""
STACK = STACKS[os.environ.get("SWIFT", PINNED.swift)]
TRAIN, PYTHON, ORACLE = STACK.train, STACK.python, STACK.oracle

UNJUDGED = """
import runpy
from launchers.inputs.models import installed_class
installed_class.refused = lambda config: ""
runpy.run_module("launchers", run_name="__main__", alter_sys=True)
"""


def launcher_words(command: str) -> list[str]:
    """Return the words of a launcher of the training Python that trains a model of the tests.

    It does not have the model judged by transformers, whose import takes 4 s of a processor.
    """
    return [str(PYTHON), "-c", UNJUDGED, command]


needs_training = pytest.mark.skipif(not PYTHON.exists(), reason=f"no {TRAIN}: run `make setup`")
needs_oracle = pytest.mark.skipif(
    not STACK.is_installed, reason=f"no {TRAIN} or {ORACLE}: run `make setup`"
)


def swift_classes() -> installed.Classes:
    """Parse the dataclasses of the arguments in ms-swift's source."""
    site = site_packages(TRAIN)
    return installed.read({name: site / name for name in ("swift", "transformers")})
