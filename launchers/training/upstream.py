"""Verify that upstream has what the launcher's features replace: other versions may not."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from launchers.exits import Exit, LaunchError

KNOWN = "ms-swift 4.4.1, megatron-core 0.18.0, mcore-bridge 1.6.0"
"""The versions that the features were written for and measured with."""


def require(owner: object, *names: str) -> None:
    """Verify that a class or module of upstream has these names.

    Raises:
        LaunchError: CONFIG, naming the first that is missing and the versions known to work.

    >>> require(str, "join")
    """
    for name in names:
        if not hasattr(owner, name):
            raise _other(f"{getattr(owner, '__name__', owner)} has no {name} in this image")


def require_parameters(function: Callable[..., object], *names: str, otherwise: str = "") -> None:
    """Verify that a function of upstream takes these parameters and no others.

    Args:
        function: of upstream.
        names: its parameters in their order, ``self`` included.
        otherwise: what a user may write in the values instead of using another image.

    Raises:
        LaunchError: CONFIG, naming the parameters it takes and the versions known to work.

    >>> require_parameters(lambda self, data: None, "self", "data")
    """
    given = tuple(inspect.signature(function).parameters)
    if given != names:
        name = getattr(function, "__qualname__", function)
        raise _other(f"{name} takes {', '.join(given)} in this image", otherwise)


def _other(what: str, otherwise: str = "") -> LaunchError:
    remedy = f"use an image with {KNOWN}"
    return LaunchError(
        Exit.CONFIG,
        what,
        f"{remedy}, or {otherwise}" if otherwise else remedy,
        id="upstream-changed",
    )
