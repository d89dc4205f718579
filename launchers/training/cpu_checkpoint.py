"""Loaded into ms-swift on CPU: lets a checkpoint of several CPU ranks be read back.

torch tags storages of a gloo rank as ``cpu:0`` and knows no such location when it loads them
(``don't know how to restore data location``); every ``cpu:N`` is the CPU.
"""

from typing import Any

import torch.serialization

_BEFORE_THE_BUILT_IN = 5


def _tag(storage: Any) -> None:
    """Leave tagging to torch's own packages."""


def _restore(storage: Any, location: Any) -> Any:
    """Keep a storage tagged ``cpu:N`` where it is."""
    return storage if str(location).startswith("cpu") else None


torch.serialization.register_package(_BEFORE_THE_BUILT_IN, _tag, _restore)
