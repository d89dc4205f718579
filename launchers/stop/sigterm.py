"""SIGTERM to a training process: it ends it only if torchrun sends it.

Slurm's preemption, systemd's ``KillMode=control-group`` and a person who signals all processes of
a host send SIGTERM to each of them, while the launcher still waits for the save. So the launcher
starts torchrun with SIGTERM blocked (``system/process.py``), which all its descendants inherit.
"""

import importlib
import os
import signal
import subprocess
import threading
from contextlib import suppress

_FORKS = ("multiprocessing.popen_fork", "multiprocess.popen_fork")
"""Modules whose ``Popen`` ends data loader workers and pools; the second is that of datasets."""


def install() -> None:
    """Let the SIGTERM of torchrun end this process, and that of this process end its children.

    torchrun ends the other workers so when one has failed, and kills them after 30 s
    (``torch/distributed/elastic/multiprocessing/api.py``, ``_close``). Children inherit the blocked
    SIGTERM: ``terminate`` kills them, because a pool joins them without a limit. Nothing changes
    in a process where SIGTERM is not blocked.
    """
    if signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, []):
        return
    threading.Thread(target=_await, args=(os.getppid(),), name="sigterm", daemon=True).start()
    subprocess.Popen.terminate = subprocess.Popen.kill  # type: ignore[method-assign]
    for name in _FORKS:
        with suppress(ImportError):
            popen = importlib.import_module(name).Popen
            popen.terminate = popen.kill


def _await(parent: int) -> None:
    """Wait for the SIGTERM of the parent, then let it act: by default it ends the process.

    A handler in Python would have to wait for a main thread that hangs in a collective.
    """
    while signal.sigwaitinfo([signal.SIGTERM]).si_pid != parent:
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.kill(os.getpid(), signal.SIGTERM)
