"""A worker of a standby: it imports what training imports, waits, and becomes a training process.

    python3 -u -m launchers.standby.worker PROGRAM FD

Modules of ms-swift, Megatron and the features are imported, plugins of the user are not: what those
do when they are imported is not known. Nothing is installed, and no file of the run is touched. The
features' own modules are forgotten again: several wrap one function of upstream, each what it finds
when it is imported, which must be after the one before it was installed.
"""

import ctypes
import importlib
import os
import runpy
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers.flags.features import FEATURES, VARIABLE
from launchers.standby.message import READY, Waiting

CUDA = "libcuda.so.1"
_MODULES = {"pt": "pretrain"}
"""Modules of ms-swift whose name is not that of the task."""


def modules(program: Path, env: Mapping[str, str]) -> list[str]:
    """Return the modules to import, in this order.

    ``program``, ms-swift's entry file, imports nothing unless it is run.

    >>> modules(Path("swift/cli/_megatron/rlhf.py"), {})[0]
    'swift.megatron.pipelines.train.rlhf'
    """
    task = _MODULES.get(program.stem, program.stem)
    if program.parent.name == "_megatron":
        found = [f"swift.megatron.pipelines.train.{task}", "swift.megatron.trainers.dpo_trainer"]
    else:
        found = [f"swift.pipelines.train.{task}", "swift.rlhf_trainers.dpo_trainer"]
    names = set(env.get(VARIABLE, "").split(","))
    used = [each for each in FEATURES if each.name in names]
    return [*found, *(f"launchers.{each.module}" for each in used)]


def has_context(library: Any, devices: int) -> bool:
    """Return whether this process holds a CUDA context, and so memory of a GPU."""
    flags, active = ctypes.c_uint(), ctypes.c_int()
    for device in range(devices):
        # an error means that the driver is not even initialised
        query = library.cuDevicePrimaryCtxGetState
        if query(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value:
            return True
    return False


def _holds_gpu() -> bool:
    try:
        library, count = ctypes.CDLL(CUDA), ctypes.c_int()
    except OSError:
        return False
    if library.cuDeviceGetCount(ctypes.byref(count)) != 0:  # no import has used the driver
        return False
    return has_context(library, count.value)


def forget(known: Collection[str]) -> None:
    """Let the launcher's modules that are not known be imported anew; what they import stays."""
    for name in [each for each in sys.modules if each.startswith("launchers.")]:
        if name not in known:
            del sys.modules[name]


def main(words: Sequence[str]) -> None:
    """Import, wait, run the program as Python runs a file."""
    program = Path(words[0])
    waiting = Waiting(socket.socket(fileno=int(words[1])))
    sys.path[0] = str(program.parent)
    known = {*sys.modules}
    try:
        for name in modules(program, os.environ):
            importlib.import_module(name)
        forget(known)
    except BaseException as error:
        waiting.report(f"{type(error).__name__}: {error}"[:1000])
        raise
    waiting.report("its imports hold a GPU" if _holds_gpu() else READY)
    waiting.become()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
