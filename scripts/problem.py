"""Expected failures of a command."""

from typing import ClassVar


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
