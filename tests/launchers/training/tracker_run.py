"""One attempt of a run that reports to a tracker, in a process with the real library.

``python -m tests.launchers.training.tracker_run LIBRARY FIRST_STEP`` calls the library as the
callbacks of ms-swift's Megatron trainer do (``swift/megatron/callbacks/wandb.py``, ``swanlab.py``).
"""

import importlib
import json
import os
import sys
import time
from typing import Any


def main(library: str, first: int) -> None:
    """Install the feature, report three steps, and print what the run is."""
    from launchers.training import trackers

    getattr(trackers, f"install_{library}")()
    writer: Any = importlib.import_module(library)
    folder = os.environ["DPO_RUN_FOLDER"]
    began = time.monotonic()
    if library == "wandb":
        run = writer.init(dir=folder, name="/w/checkpoints", project="megatron-swift", config={})
        name = run.name
    else:
        run = writer.init(
            logdir=f"{folder}/swanlab",
            experiment_name="/w/checkpoints",
            project="megatron-swift",
            config={},
        )
        name = None
    seconds = time.monotonic() - began
    for step in range(first, first + 3):
        writer.log({"train/loss": 1 / step}, step=step)
    print(json.dumps({"id": run.id, "name": name, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
