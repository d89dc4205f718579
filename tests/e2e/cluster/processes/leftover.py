"""The network of a cluster whose processes were all killed, for example with their session.

Bridge and routes belong to the kernel and outlive the processes that need them.
"""

import fcntl
from dataclasses import replace
from pathlib import Path

from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node import network


def abandoned(layout: Layout) -> bool:
    """Return whether the bridge is of another checkout's cluster that no longer runs.

    A node that runs has a link on the bridge, also if its checkout was deleted.
    """
    home = network.owner(layout)
    if home is None or home == layout.home:
        return False
    if any(name.startswith(f"{layout.bridge}-") for name in network.links()):
        return False
    return not starting(home) and not any(
        process.alive for process in supervise.recorded(replace(layout, home=home))
    )


def starting(home: Path) -> bool:
    """Return whether a command starts or stops the cluster of ``home``: it holds the lock."""
    try:
        with (home / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
