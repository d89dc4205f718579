"""That upstream has what our in-training code replaces: other versions may not."""

from __future__ import annotations

from launchers.exits import Exit, LaunchError

KNOWN = "ms-swift 4.4.1"


def require(owner: object, *names: str) -> None:
    """Make sure that a class or module of upstream has these names.

    Raises:
        LaunchError: CONFIG, naming the first that is missing and the versions known to work.

    >>> require(str, "join")
    """
    for name in names:
        if not hasattr(owner, name):
            raise LaunchError(
                Exit.CONFIG,
                f"{getattr(owner, '__name__', owner)} has no {name} in this image",
                f"use an image with {KNOWN}",
            )
