"""The rank that blocks the others; "unknown" without evidence, never a guess. Pure.

The rules are tried in order; each selects ranks by one kind of evidence, and answers only if it
selects some of the ranks but not all.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launchers.hang.flight_recorder import Group
from launchers.hang.worker import REAPED, STOPPED, Worker
from launchers.system.step_board import name_of

UNKNOWN, EXITED = "unknown", "exited"
"""Kinds of answers: no evidence; a process ended in mid-training with the exit code 0."""


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """The answer of a rule."""

    kind: str
    """Name of the rule, or ``unknown``."""
    ranks: tuple[int, ...]
    """Global ranks; empty if unknown."""
    node: int | None
    """The rank of the launcher that runs the first of them; None if unknown."""
    why: str


def find(workers: Sequence[Worker], mute: Sequence[int] = ()) -> Culprit:
    """Return which ranks hold up the others.

    ``workers`` are of the launchers that have answered, ``mute`` the ranks of the others.

    >>> def rank(number, **seen):
    ...     return Worker(rank=number, node=number, boundary=8, phase="step", age=60, **seen)
    >>> find([rank(0, state="S"), rank(1, state="T")]).why
    'rank 1 is stopped by a signal or a debugger (state T)'
    >>> find([rank(0), rank(1)]).kind
    'unknown'
    """
    if mute:
        answered = "" if workers else "; no launcher has answered"
        why = f"the launcher of node {mute[0]} does not answer{answered}"
        return Culprit(kind="launcher", ranks=(), node=mute[0], why=why)
    live = [each for each in workers if not each.has_ended]
    for rule in _RULES:
        found = rule(workers if rule in (_exited, _ended) else live)
        if found is not None:
            return found
    phases = ", ".join(f"{count} in {phase}" for phase, count in _phases(live))
    why = _mismatch(live) or f"no rank differs from the others ({phases})"
    return Culprit(kind=UNKNOWN, ranks=(), node=None, why=why)


def torchrun(node: int, state: str) -> Culprit:
    """Return the answer for a torchrun that has not ended after its processes.

    >>> torchrun(1, "T").why, torchrun(1, "S").why
    ('torchrun is stopped by a signal or a debugger (state T)', 'torchrun does not end (state S)')
    """
    what = "is stopped by a signal or a debugger" if state in STOPPED else "does not end"
    return Culprit(kind="torchrun", ranks=(), node=node, why=f"torchrun {what} (state {state})")


def writers(ranks: Sequence[int], node: int, seconds: float) -> Culprit:
    """Return the answer for ranks of one node that do not end to write a checkpoint.

    >>> writers([3], 1, 1805.2).why
    'rank 3 has been writing a checkpoint for 1805 s'
    """
    names = ", ".join(map(str, ranks))
    subject, verb = ("rank", "has") if len(ranks) == 1 else ("ranks", "have")
    why = f"{subject} {names} {verb} been writing a checkpoint for {seconds:.0f} s"
    return Culprit(kind="write", ranks=tuple(ranks), node=node, why=why)


def _mismatch(workers: Sequence[Worker]) -> str:
    """Name two ranks that wait for each other in different collectives; empty without such two.

    One of them has called a collective too many or too few; which one, this does not show.
    """
    members, order = _members(workers), {each.rank: n for n, each in enumerate(workers)}
    for number, one in enumerate(workers):
        behind = {
            order[rank]
            for group in one.pending
            for rank, enqueued in members[group.name, group.ranks].items()
            if enqueued < group.enqueued and order[rank] > number
        }
        for other in (workers[each] for each in sorted(behind)):
            first, second = _awaits(one, other), _awaits(other, one)
            if first is not None and second is not None:
                return (
                    f"rank {one.rank} waits in collective {first.enqueued} of group {first.name} "
                    f"for rank {other.rank}, which waits in collective {second.enqueued} of group "
                    f"{second.name} for rank {one.rank}: the ranks have called different "
                    "collectives"
                )
    return ""


def _members(workers: Sequence[Worker]) -> dict[tuple[str, object], dict[int, int]]:
    """Return by group the number of its last collective that each of its ranks has enqueued.

    One pass: a gang of 8,192 processes has thousands of groups.
    """
    found: dict[tuple[str, object], dict[int, int]] = {}
    for each in workers:
        for group in each.groups:
            found.setdefault((group.name, group.ranks), {})[each.rank] = group.enqueued
    return found


def _awaits(one: Worker, other: Worker) -> Group | None:
    """Return the group with a collective that one has enqueued and the other, a member, has not."""
    seen = {(group.name, group.ranks): group.enqueued for group in other.groups}
    for group in one.pending:
        if seen.get((group.name, group.ranks), group.enqueued) < group.enqueued:
            return group
    return None


def _phases(workers: Sequence[Worker]) -> list[tuple[str, int]]:
    return sorted(Counter(each.phase for each in workers).items())


def _answer(
    kind: str,
    workers: Sequence[Worker],
    chosen: Sequence[Worker],
    what: str,
    *,
    all_may: bool = False,
) -> Culprit | None:
    """Return the chosen ranks as the culprits, unless none or all are chosen."""
    if not chosen or (len(chosen) == len(workers) and len(workers) > 1 and not all_may):
        return None
    ranks = tuple(sorted(each.rank for each in chosen))
    first = min(chosen, key=lambda each: each.rank)
    names = ", ".join(map(str, ranks))
    subject, verb = ("rank", "is") if len(ranks) == 1 else ("ranks", "are")
    return Culprit(kind=kind, ranks=ranks, node=first.node, why=f"{subject} {names} {verb} {what}")


def _stopped(workers: Sequence[Worker]) -> Culprit | None:
    chosen = [each for each in workers if each.is_stopped]
    what = "stopped by a signal or a debugger (state T)"
    return _answer("stopped", workers, chosen, what, all_may=True)


def _exited(workers: Sequence[Worker]) -> Culprit | None:
    chosen = [each for each in workers if each.has_exited]
    nodes = {each.node for each in chosen}
    if any(each.is_blocked and each.node in nodes for each in workers):
        return None  # torchrun may be waiting for the end of that one, after any exit code
    what = "gone with exit code 0, and all others wait"
    return _answer(EXITED, workers, chosen, what)


def _ended(workers: Sequence[Worker]) -> Culprit | None:
    chosen = [each for each in workers if each.has_ended and each.state != REAPED]
    return _answer("ended", workers, chosen, "dead, and torchrun has not noticed")


def _blocked(workers: Sequence[Worker]) -> Culprit | None:
    chosen = [each for each in workers if each.is_blocked]
    what = "blocked in the kernel (state D): storage or a driver does not answer"
    return _answer("blocked", workers, chosen, what)


def _writing(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the ranks that write their parts of a checkpoint, while the others wait for it."""
    if any(each.phase != "save" for each in workers):
        return None  # training continues during a write
    chosen = [each for each in workers if each.writes]
    return _answer("write", workers, chosen, "writing a checkpoint")


def _absent(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the ranks that wait for no other rank while all others wait for them."""
    if any(each.waits is None for each in workers):
        return None
    chosen = [each for each in workers if not each.waits]
    if not chosen:
        return None
    first = chosen[0]
    where = f" ({first.frames[0]})" if first.frames else ""
    if all(each.is_loading for each in chosen):
        return _answer("loader", workers, chosen, f"waiting for data{where}")
    if all(each.phase == "save" for each in chosen):
        return _answer("save", workers, chosen, f"writing a checkpoint{where}")
    what = f"in no collective{where}" + ", and all others wait in one" * (len(workers) > 1)
    return _answer("absent", workers, chosen, what)


def _loading(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the ranks that wait for data; the others may show nothing."""
    chosen = [each for each in workers if each.is_loading]
    return _answer("loader", workers, chosen, "waiting for data")


def _minority(
    workers: Sequence[Worker], key: Callable[[Worker], object]
) -> tuple[list[Worker], list[Worker]] | None:
    """Return the few that differ in ``key`` and the many that agree; None without such a split."""
    many = Counter(map(key, workers)).most_common(1)
    if not many or 2 * many[0][1] <= len(workers) or many[0][1] == len(workers):
        return None
    few = [each for each in workers if key(each) != many[0][0]]
    return few, [each for each in workers if key(each) == many[0][0]]


def _out_of_step(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the few ranks at another boundary than most; of two, the one that is behind."""
    split = _minority(workers, lambda each: each.boundary)
    if split is not None:
        few, many = split
        last = few[0].boundary < many[0].boundary
        what = "behind" if last else "ahead"
        what += f": before {name_of(few[0].boundary)}, most others before "
        what += name_of(many[0].boundary)
        return _answer("boundary", workers, few, what)
    lowest = min((each.boundary for each in workers), default=0)
    behind = [each for each in workers if each.boundary == lowest]
    if any(each.waits for each in behind):
        return None  # it waits for the others as they wait for it
    what = f"behind: before {name_of(lowest)}"
    return _answer("boundary", workers, behind, what)


def _skipped(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the few ranks that have enqueued fewer collectives than the others of a group."""
    by_rank = {each.rank: each for each in workers}
    members = _members(workers)
    groups = {(group.name, str(group.ranks)) for each in workers for group in each.pending}
    for name, ranks in sorted(groups):
        seen = members[name, ranks]
        last = max(seen.values())
        few = [by_rank[rank] for rank, enqueued in seen.items() if enqueued < last]
        if few and 2 * len(few) < len(seen):
            what = f"without collective {last} of group {name}, in which the others wait"
            return _answer("skipped", workers, few, what)
    return None


def _elsewhere(workers: Sequence[Worker]) -> Culprit | None:
    """Choose the one rank that waits in another collective than all others."""
    if not all(each.call for each in workers):
        return None
    split = _minority(workers, lambda each: each.call)
    if split is None or len(split[0]) != 1:
        return None
    few, many = split
    if len({each.call for each in many}) != 1:
        return None
    what = f"in another collective ({few[0].call}) than the others ({many[0].call})"
    return _answer("elsewhere", workers, few, what)


_RULES = (
    _stopped, _exited, _ended, _blocked, _writing, _absent, _loading, _skipped, _out_of_step,
    _elsewhere,
)  # fmt: skip
