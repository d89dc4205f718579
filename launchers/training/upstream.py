"""Upstream's functions that our in-training code replaces or relies on: other versions may differ.

A patch is installed in the training process by replacing a function of upstream. ``require`` and
``require_parameters`` verify names and signatures; a ``Patch`` verifies the source itself, against
the digests of the versions that were read when the patch was written.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from launchers import logs
from launchers.exits import Exit, LaunchError

KNOWN = "ms-swift 4.4.1, megatron-core 0.18.0, mcore-bridge 1.6.0"
"""The versions that the features were written for and measured with."""
ACCEPT = "DPO_ACCEPT_PATCHES"
"""Environment variable: names of patches, separated by commas, to install on an unknown source."""


@dataclass(frozen=True)
class Patch:
    """A replacement of upstream functions, and the sources it was written for."""

    name: str
    """As ``DPO_ACCEPT_PATCHES`` spells it."""
    package: str
    """The distribution that upstream's functions come from."""
    changes_numbers: bool
    """On an unknown source: refuse if True, since results could be wrong with no error; if False,
    the patch only saves time or memory and steps aside."""
    sources: Mapping[str, Mapping[str, str]]
    """For each function it replaces or relies on: the versions that were read, by the sha256 of
    their source."""

    def fits(self, owner: object) -> bool:
        """Return whether to install the patch on the installed source of ``owner``'s functions.

        Args:
            owner: the class or module of upstream that has the functions of ``sources``.

        Raises:
            LaunchError: CONFIG: a source is unknown, the patch changes numbers and the user has
                not accepted it; names the patch, the function, the version and the override.
        """
        unknown = [name for name in self.sources if digest(owner, name) not in self.sources[name]]
        if not unknown:
            return True
        accepted = self.name in os.environ.get(ACCEPT, "").replace(" ", "").split(",")
        where = getattr(owner, "__name__", str(owner))
        if accepted or not self.changes_numbers:
            event = f"patch {self.name} {'accepted' if accepted else 'not installed'}"
            functions = ",".join(f"{where}.{name}" for name in unknown)
            logs.warning(event, unknown=functions, installed=f"{self.package} {self._version()}")
            return accepted
        raise LaunchError(
            Exit.CONFIG,
            f"patch {self.name} was not written for {where}.{unknown[0]} of {self.package} "
            f"{self._version()}: its source is unknown (sha256 {digest(owner, unknown[0])[:12]})",
            f"use an image with {self.package} {self._read(unknown[0])}, or set "
            f"extraEnv.{ACCEPT}: {self.name} and compare the first losses with a known version's",
            id="patch-unknown-source",
        )

    def _version(self) -> str:
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return "(version unknown)"

    def _read(self, name: str) -> str:
        return ", ".join(self.sources[name].values())


def digest(owner: object, name: str) -> str:
    """Return the sha256 of a function's source; empty if it is missing or has no Python source.

    >>> digest(str, "join"), len(digest(inspect, "getsource"))
    ('', 64)
    """
    try:
        source = inspect.getsource(getattr(owner, name))
    except (AttributeError, OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode()).hexdigest()


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
