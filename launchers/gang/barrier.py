"""The start barrier: which ranks may join the gang, and which are missing. Pure.

Rank 0 leads. It opens its port before its first stage, so that the others join while it prepares.
The gang starts when every rank is present, has the same recipe and launcher, and sees rank 0's
outputs on the shared workspace.
"""

import time
from collections.abc import Callable, Collection, Sequence

from launchers.exits import Exit, LaunchError
from launchers.gang.protocol import Hello, Message
from launchers.system.remedies import here
from launchers.units import count_text

JudgeAnswers = Callable[[Sequence[Message]], None]
"""Raises a LaunchError for what it finds wrong with the ranks' answers to rank 0."""


def refusal(
    own: Hello, peer: Hello, present: dict[int, Hello], *, generation: str
) -> tuple[Exit, str] | None:
    """Return why ``peer`` may not join, as exit code and cause; None when it may.

    Args:
        own: rank 0's hello.
        peer: the hello of the rank that wants to join.
        present: the other ranks that have joined.
        generation: id of the gang once it has started, otherwise empty. A gang that has started
            admits no rank: a pod replaced on its own belongs to the next gang (jobset #574).
    """
    if peer.origin != own.origin:
        # a stale address led it here: it looks rank 0 up again, and the gang waits on
        return Exit.UNAVAILABLE, (
            f"{peer.name} belongs to run {peer.run!r}{peer.start}, not to {own.run!r}{own.start}"
        )
    if peer.nodes != own.nodes or not 0 < peer.rank < own.nodes:
        return (
            Exit.CONFIG,
            f"{peer.name} expects a gang of {count_text(peer.nodes, 'node')}, not {own.nodes}",
        )
    if peer.processes != own.processes:
        return Exit.CONFIG, (
            f"{peer.name} starts {peer.processes} training processes and rank 0 {own.processes}: "
            "set DPO_GPUS_PER_NODE to the same number on all nodes"
        )
    if peer.digest != own.digest:
        return Exit.CONFIG, (
            f"{peer.name} has another recipe or launcher ({peer.digest[:12]}) than rank 0 "
            f"({own.digest[:12]})"
        )
    if generation:
        return Exit.PEER, f"{peer.name} is too late: gang {generation} has already started"
    if peer.rank in present:
        return Exit.UNAVAILABLE, f"{peer.name} is a duplicate of {present[peer.rank].name}"
    return None


def missing(nodes: int, present: Collection[int]) -> list[int]:
    """List the ranks that have not joined.

    >>> missing(4, {1, 3})
    [2]
    """
    return [rank for rank in range(1, nodes) if rank not in present]


def format_ranks(ranks: Collection[int]) -> str:
    """Format ranks briefly.

    >>> format_ranks([3]), format_ranks([1, 2, 3, 7])
    ('rank 3', 'ranks 1-3, 7')
    """
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in spans]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(words)


def incomplete(nodes: int, joined: Collection[int], ready: Collection[int]) -> LaunchError:
    """Build the error of a gang that is not complete at its deadline.

    >>> incomplete(4, {1, 2}, {1}).cause
    'gang of 4 nodes: rank 3 did not join, rank 2 joined but was not ready within the deadline'
    """
    absent = missing(nodes, joined)
    mute = [rank for rank in missing(nodes, ready) if rank not in absent]
    what = [f"{format_ranks(absent)} did not join"] if absent else []
    what += [f"{format_ranks(mute)} joined but was not ready"] if mute else []
    return LaunchError(
        Exit.UNAVAILABLE,
        f"gang of {nodes} nodes: {', '.join(what)} within the deadline",
        here(
            "check why these pods do not run (kubectl describe), or raise "
            "rendezvous.deadlineSeconds",
            "check the launchers on these hosts, or raise DPO_GANG_DEADLINE",
        ),
        id="gang-incomplete",
    )


def seconds_until(deadline: float) -> float:
    """Return the seconds left until a monotonic time, at least 0."""
    return max(0.0, deadline - time.monotonic())
