"""Agreement of the ranks at a save, and the end of a training process after it."""

import os
import sys
from collections.abc import Callable

import torch.distributed as dist

from launchers import logs
from launchers.stop import finished
from launchers.stop.boundary import Boundary


def from_rank_0(number: int) -> int:
    """Return global rank 0's number on all ranks."""
    sent = [number]
    if dist.is_initialized():
        dist.broadcast_object_list(sent)
    return sent[0]


def await_seal() -> None:
    """Wait until global rank 0 has sealed the checkpoint.

    It flushes the files of all processes, which may take as long as to write them. Those that do
    not stop would wait for it in the next step anyway.
    """
    if dist.is_initialized():
        dist.barrier()


def leave(boundary: Boundary, step: int, close: Callable[[], object]) -> None:
    """End this process with exit code 0, after ``await_seal``.

    The trainer's own end is left out: it may load the best model, evaluate, or delete checkpoints.
    ``close`` closes what the trainer's callbacks have open, such as ``metrics.jsonl``.
    """
    if os.environ.get("RANK", "0") == "0":
        print(logs.format_event("training stopped", step=step), flush=True)
    finished.note_leaving()
    close()
    boundary.stop(step)
    _exit()


def finish(close: Callable[[], object]) -> None:
    """End this process with exit code 0 because no step is left; ``close`` as of ``leave``.

    It has resumed from the last step, whose checkpoint an earlier attempt has completed.
    """
    close()
    await_seal()  # until rank 0 has recorded the end
    _exit()


def _exit() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
