"""Expected failures of a command."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from launchers.exits import LaunchError


class Problem(Exception):
    """An expected failure, shown as one message with its remedy and without a traceback."""

    code: ClassVar[int] = 1
    """Exit code of the command, see `scripts.observe.command.Exit`."""


class WrongUse(Problem):
    """An option that no run could satisfy."""

    code = 2


class UnknownState(Problem):
    """The cluster was not read: none is selected, it does not answer, or it refuses the user."""

    code = 4


def output_of(
    command: Sequence[str],
    failed: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """Run a program with ``given`` as its input, and return what it prints.

    Raises:
        Problem: ``failed`` and its stderr, if its exit code is not 0.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Problem(f"{failed}{done.stderr.strip()}")
    return done.stdout


@contextmanager
def of_launcher(begin: str = "") -> Iterator[None]:
    """Raise a Problem in place of the launcher's error, with ``begin`` before its cause."""
    try:
        yield
    except LaunchError as error:
        raise Problem(f"{begin}{error.cause}; {error.remedy}") from None
