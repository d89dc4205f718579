"""End of torch's process groups before Python's own end."""

from __future__ import annotations

import atexit
import sys
from typing import Any


def end_at_exit() -> None:
    """Let gloo's process groups end when the process does, as ms-swift's Megatron trainer does.

    Its transformers trainer leaves them (4.4.1 and 4.6.0). A thread of gloo that drops the tensors
    of the last collective while the interpreter ends can't take its lock any more, and the process
    ends with "terminate called without an active exception", SIGABRT: a run that has finished
    counts as failed. Seen in 2 of some hundred process ends on two busy cores. NCCL's groups stay
    as they are: to destroy them waits for other ranks.
    """
    atexit.register(_end)


def _end() -> None:
    dist: Any = sys.modules.get("torch.distributed")
    # a torch that is built without it has the module and nothing in it
    if hasattr(dist, "get_backend") and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
