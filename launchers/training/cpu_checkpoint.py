"""Load checkpoints that several CPU ranks have saved.

torch tags the storages of a gloo rank as ``cpu:0`` and does not know such a location when it loads
them (``don't know how to restore data location``); every ``cpu:N`` is the CPU.
"""

from typing import Any

import torch.serialization

_PRIORITY = 5
"""Before torch's built-in packages."""


def _tag(storage: Any) -> None:
    """Leave tagging to torch's own packages."""


def _restore(storage: Any, location: Any) -> Any:
    """Return a storage tagged ``cpu:N`` as it is; None for all others."""
    return storage if str(location).startswith("cpu") else None


def install() -> None:
    """Register the location ``cpu:N`` with torch."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
