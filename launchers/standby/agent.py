"""The first process of a standby: it becomes torchrun, and its children become the workers.

    python3 -m launchers.standby.agent PROGRAM NPROC FIRST_RANK WORLD_SIZE FD

Few workers import at a time, so that they take few cores from the attempt that trains; a lower
priority could not be raised again without privileges. torchrun starts its workers by
``SubprocessHandler._popen`` (torch 2.11); where that differs, it starts new ones.
"""

import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from launchers.standby.message import READY, Message, Waiting, outcome

WORKER = "launchers.standby.worker"
AT_ONCE = 2
"""Workers that import at the same time."""
PARAMETERS = ["self", "args", "env"]
"""Of ``SubprocessHandler._popen``."""


class Worker:
    """A waiting process that becomes the worker of one rank."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        """Start it.

        By ``env`` a worker knows its rank.
        """
        self.rank = dict(env)
        self.connection, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", WORKER, program, str(theirs.fileno())],
                env={**os.environ, **env},
                start_new_session=True,  # as torchrun's own
                pass_fds=[theirs.fileno()],
            )

    def takes(self, args: Sequence[str], env: Mapping[str, str], out: int, err: int) -> bool:
        """Make it the worker that torchrun wants; return whether it is.

        ``args``: Python, ``-u``, the program, its arguments; ``out`` and ``err`` are descriptors.
        """
        is_same = all(env.get(name) == value for name, value in self.rank.items())
        if not is_same or list(args[:2]) != [sys.executable, "-u"]:
            return False
        try:
            Message(argv=args[2:], env=env, stdout=out, stderr=err).send(self.connection)
        except OSError:
            return False
        finally:
            self.connection.close()
        return self.process.poll() is None


def rank_variables(local: int, *, nproc: int, first: int, world: int) -> dict[str, str]:
    """Return what a worker's imports may read of its rank, as torchrun sets it.

    Source: ``torch/distributed/elastic/agent/server/local_elastic_agent.py``, ``_start_workers``;
    ``OMP_NUM_THREADS``: ``torch/distributed/run.py``, ``config_from_args``.

    >>> rank_variables(1, nproc=2, first=2, world=4)["RANK"]
    '3'
    """
    omp = os.environ.get("OMP_NUM_THREADS", "1" if nproc > 1 else "")
    return {
        "RANK": str(first + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(nproc),
        **({"OMP_NUM_THREADS": omp} if omp else {}),
    }


def install(handler: Any, workers: list[Worker]) -> None:
    """Let torchrun take the waiting workers before it starts new ones.

    ``handler`` is torch's ``SubprocessHandler``; each of the workers is used or ended.
    """
    start = handler._popen
    if list(inspect.signature(start).parameters) != PARAMETERS:
        for worker in workers:
            worker.connection.close()
        return

    def popen(self: Any, args: Sequence[str], env: Mapping[str, str]) -> Any:
        local = env.get("LOCAL_RANK")
        for worker in [each for each in workers if each.rank["LOCAL_RANK"] == local]:
            workers.remove(worker)
            if worker.takes(args, env, _descriptor(self._stdout, 1), _descriptor(self._stderr, 2)):
                return worker.process
            worker.process.kill()
            worker.process.wait()
        return start(self, args, env)

    handler._popen = popen


def _descriptor(file: Any, own: int) -> int:
    """Return the descriptor of a worker's log file; torchrun's own without one."""
    return own if file is None else int(file.fileno())


def main(words: Sequence[str]) -> None:
    """Start the workers, wait for an attempt, become its torchrun."""
    program, (nproc, first, world, number) = words[0], [int(word) for word in words[1:]]
    waiting = Waiting(socket.socket(fileno=number))
    ranks = [rank_variables(n, nproc=nproc, first=first, world=world) for n in range(nproc)]
    workers = [Worker(program, rank) for rank in ranks[:AT_ONCE]]
    from torch.distributed import run  # while they import
    from torch.distributed.elastic.multiprocessing import subprocess_handler

    for local in range(nproc):
        said = outcome(workers[local].connection, block=True)
        if said != READY:
            waiting.report(said or f"worker {local} has ended")
            return
        workers += [Worker(program, rank) for rank in ranks[len(workers) :][:1]]
    waiting.report(READY)
    waiting.become()
    install(subprocess_handler.SubprocessHandler, workers)
    run.main()


if __name__ == "__main__":
    main(sys.argv[1:])
