"""Expected failures of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def of_launcher(begin: str = "") -> Iterator[None]:
    """Raise a Problem in place of the launcher's error, with ``begin`` before its cause."""
    try:
        yield
    except LaunchError as error:
        raise Problem(f"{begin}{error.cause}; {error.remedy}") from None
