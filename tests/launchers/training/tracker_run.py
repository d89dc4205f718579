"""One attempt of a run that reports to a tracker, in a process with the real library.

``python -m tests.launchers.training.tracker_run LIBRARY FIRST_STEP`` calls the library as the
callbacks of ms-swift's Megatron trainer do (``swift/megatron/callbacks/wandb.py``, ``swanlab.py``,
``tensorboard.py``). A connection of this process to another machine ends it.
"""

import importlib
import json
import os
import sys
import time
from typing import Any

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PUBLIC_SERVER = 9
"""Exit code of a process that was about to connect to another machine."""


def refuse_other_machines(event: str, given: tuple[Any, ...]) -> None:
    """Refuse, as an audit hook, names and addresses other than the loopback's."""
    host = given[0] if event == "socket.getaddrinfo" else None
    if event == "socket.connect" and isinstance(given[1], tuple):
        host = given[1][0]
    if host is not None and host not in LOOPBACK:
        sys.stderr.write(f"{event} {host}\n")
        os._exit(PUBLIC_SERVER)


def main(library: str, first: int) -> None:
    """Install the feature, report three steps, and print what the run is."""
    from launchers.training import trackers

    getattr(trackers, f"install_{library}")()
    writer: Any = importlib.import_module(library)
    folder = os.environ["DPO_RUN_FOLDER"]
    began = time.monotonic()
    shared = {"project": "megatron-swift", "config": {}}
    if library == "wandb":
        run = writer.init(dir=folder, name="/w/checkpoints", **shared)
        name = run.name
    else:
        logs = {"logdir": f"{folder}/swanlab", "experiment_name": "/w/checkpoints"}
        run, name = writer.init(**logs, **shared), None
    seconds = time.monotonic() - began
    for step in range(first, first + 3):
        writer.log({"train/loss": 1 / step}, step=step)
    print(json.dumps({"id": run.id, "name": name, "seconds": seconds}), flush=True)


def draw(folder: str, first: int) -> None:
    """Draw three steps, and print all that a TensorBoard on the folder would show."""
    reading: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    writing: Any = importlib.import_module("torch.utils.tensorboard")
    writer = writing.SummaryWriter(log_dir=folder, max_queue=1)
    for step in range(first, first + 3):
        writer.add_scalar("train/loss", 1 / step, step)
    writer.close()
    shown = reading.EventAccumulator(folder).Reload().Scalars("train/loss")
    print(json.dumps({"id": None, "shown": [[each.step, each.value] for each in shown]}))


if __name__ == "__main__":
    sys.addaudithook(refuse_other_machines)
    if sys.argv[1] == "tensorboard":
        draw(os.environ["DPO_RUN_FOLDER"], int(sys.argv[2]))
    else:
        main(sys.argv[1], int(sys.argv[2]))
