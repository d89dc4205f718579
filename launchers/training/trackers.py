"""Report to W&B and SwanLab: one run is one curve over its restarts, and no outage ends it.

``init`` of the library is wrapped, which ms-swift's callbacks and those of transformers call in the
one process that reports. It gets the run's name and an id that is kept in the run's folder. If it
fails, as without a network or with a wrong key, the library writes files for a later upload.
"""

import atexit
import importlib
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.recipe import TRACKERS
from launchers.stop import uncaught
from launchers.system.atomic_file import replace
from launchers.training.installed import INSTALLED

ID = "tracker-id"
"""File in the run's folder; removing the folder starts another curve."""
FINISH_SECONDS = 30.0
"""Time that the end of the process waits for the upload of what is left."""
_WANDB = {
    # bounds of ``init`` without a network, which its defaults do not give (90 s and more)
    "WANDB_INIT_TIMEOUT": "20",
    "WANDB_X_GRAPHQL_RETRY_MAX": "2",
}


def install_wandb() -> None:
    """Wrap ``wandb.init``."""
    for name, value in _WANDB.items():
        os.environ.setdefault(name, value)
    _install("wandb", "name")


def install_swanlab() -> None:
    """Wrap ``swanlab.init``."""
    _install("swanlab", "experiment_name")


def _install(library: str, label: str) -> None:
    """Wrap ``init`` in the process that reports; take the API key from the others."""
    rank, last = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")) - 1
    if rank != (last if "startup_megatron" in INSTALLED else 0):
        os.environ.pop(TRACKERS[library], None)
        return
    uncaught.remove()  # the end of Python completes the upload
    module: Any = importlib.import_module(library)
    module.init = _wrapped(module, label)


def _wrapped(module: Any, label: str) -> Callable[..., Any]:
    init, library = module.init, module.__name__

    def start(*given: Any, **named: Any) -> Any:
        home = Path(os.environ["DPO_RUN_FOLDER"])
        own = {label: home.name, "id": run_id(home), "resume": "allow"}
        for key in ("project", "mode"):  # ms-swift passes its own, which would count
            if value := os.environ.get(f"{library.upper()}_{key.upper()}"):
                own[key] = value
        for more in ({}, {"mode": "offline"}, {"mode": "disabled"}):
            try:
                run = init(*given, **{**named, **own, **more})
            except Exception as error:
                _warn(library, "start", error)
                getattr(module, "teardown", bool)()  # wandb: its service still holds the id
                continue
            module.log = _without_errors(library, module.log)
            _end_in_time()
            return run
        raise AssertionError(f"{library}.init(mode='disabled') failed")

    return start


def run_id(home: Path) -> str:
    """Return the id of a run's curve, made once: 20 letters and digits, which both trackers accept.

    ``home``: the run's folder. One process of a run reports, so that no two make the id at once.
    """
    path = home / ID
    if not path.exists():
        replace(path, uuid.uuid4().hex[:20])
    return path.read_text(encoding="utf-8")


def _without_errors(library: str, log: Callable[..., Any]) -> Callable[..., Any]:
    def logged(*given: Any, **named: Any) -> Any:
        try:
            return log(*given, **named)
        except Exception as error:
            _warn(library, "log", error)
            return None

    return logged


def _end_in_time() -> None:
    """End the process some time after its end began: the libraries wait for an upload forever.

    At its end a process can't start a thread.
    """
    ending = threading.Event()
    atexit.register(ending.set)  # after those of the library, so that it is called first

    def end() -> None:
        ending.wait()
        time.sleep(FINISH_SECONDS)
        sys.stdout.flush()
        os._exit(1 if hasattr(sys, "last_value") else 0)

    threading.Thread(target=end, daemon=True).start()


def _warn(library: str, what: str, error: Exception) -> None:
    """Log the kind of an error; its text may hold a URL with a key."""
    print(logs.format_event(f"{library} {what} failed", cause=type(error).__name__), flush=True)
