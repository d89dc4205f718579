"""Why training ended: from the ranks' logs to an exit code of the contract. Pure but for reading.

torchrun exits 1 whatever happened (measured: worker exit 42, SIGKILL, exception), and ms-swift
has no ``@record``, so that torchrun's error file stays empty: the last exception of each rank's
stderr is what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launchers.exits import NOTE, Exit
from launchers.system.failure_rules import CASCADE, RULES, WRAPPERS

TAIL = 64 * 1024
"""Bytes read from the end of a rank's log."""

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?"
    r"((?:\w+\.)*_*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Full))(?::\s?(.*))?$"
    rf"(?:\n(?:\[rank\d+\]:\s*)?{NOTE}\w+$)?",
    re.MULTILINE,
)
_OWN = re.compile(rf"(.*LaunchError: .*)\n.*{NOTE}(\w+)")
_ARGPARSE = re.compile(r"^\S+\.py: error: (.*)$", re.MULTILINE)
_IGNORED = re.compile(
    r"^Exception ignored in.*\n(?:Traceback .*\n)?(?:[ \t]+.*\n)*(?:\S.*(?:\n|\Z))?", re.MULTILINE
)
"""What a finaliser raised while the process ended: never the cause."""
_CHAINED = re.compile(
    r"The above exception was the direct cause of|During handling of the above exception"
)
_ROOT_EXIT = re.compile(
    r"Root Cause \(first observed failure\):.*?exitcode\s*:\s*(-?\d+)", re.DOTALL
)
"""In torchrun's table; the ranks that torchrun itself ended stand above it."""
_SIGTERM = 15


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a log says about its end."""

    code: Exit
    cause: str
    remedy: str
    cascade: bool = False


def verdict(text: str, *, started: bool) -> Verdict | None:
    """Judge one log by its last exception; None when it holds none.

    Args:
        text: the end of a rank's stderr.
        started: whether a training step was done.

    >>> verdict("ValueError: remaining_argv: ['--lora_rnk', '8']", started=False).code.name
    'CONFIG'
    >>> verdict("OSError: [Errno 28] No space left on device: 'x'", started=True).code.name
    'QUOTA'
    """
    chain = _last_chain(_IGNORED.sub("", text))
    if not chain:
        return None
    last = chain[-1]
    own = _OWN.fullmatch(last)
    if own and (code := Exit.__members__.get(own[2])):
        return Verdict(code=code, cause=own[1], remedy="do what the message says")
    if any(CASCADE.search(exception) for exception in chain):
        return Verdict(code=Exit.PEER, cause=last, remedy="see the rank's log", cascade=True)
    wrapped = reversed(chain) if WRAPPERS.search(last) else [last]
    for exception in sorted(wrapped, key=lambda e: bool(WRAPPERS.search(e))):
        for rule in RULES:
            if rule.pattern.search(exception) and not (rule.early and started):
                return Verdict(code=rule.code, cause=exception, remedy=rule.remedy)
    return Verdict(code=Exit.PEER, cause=last, remedy="see the rank's log")


def _last_chain(text: str) -> list[str]:
    """Return the last exception and what led to it, first cause first."""
    found = [(m.start(), m.end(), m.group(0).strip()) for m in _EXCEPTION.finditer(text)]
    found += [(m.start(), m.end(), f"error: {m.group(1)}") for m in _ARGPARSE.finditer(text)]
    chain: list[str] = []
    follower = len(text)
    for begin, end, exception in sorted(found, reverse=True):
        if chain and not _CHAINED.search(text, end, follower):
            break
        chain.insert(0, re.sub(r"^\[rank\d+\]:\s*", "", exception))
        follower = begin
    return chain


def why(ranks: Path, agent_log: Path, *, started: bool) -> Verdict | None:
    """Judge one node's training processes after torchrun has ended.

    Args:
        ranks: torchrun's ``--log-dir``.
        agent_log: output of torchrun itself.
        started: whether a training step was done, in this attempt or before.

    A rank that a signal ended has the last word over exceptions in its log, which were caught; but
    NCCL's watchdog aborts a rank whose peer is gone, and that is a cascade.
    """
    texts = [tail(path) for path in sorted(ranks.rglob("stderr.log"))]
    found = worst(v for text in texts if (v := verdict(text, started=started)))
    exits = _ROOT_EXIT.findall(tail(agent_log))
    number = -int(exits[-1]) if exits else 0
    if number <= 0 or number == _SIGTERM or (found is not None and found.cascade):
        return found
    return Verdict(
        code=Exit.PEER,
        cause=f"a training process was killed by signal {number}",
        remedy="signal 9 is often a lack of host memory: raise resources.limits.memory",
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Choose the root among several ranks: a cause before its cascade, known before unknown."""

    def order(v: Verdict) -> tuple[bool, bool]:
        return v.cascade, v.code == Exit.PEER

    return min(verdicts, key=order, default=None)


def tail(path: Path) -> str:
    """Read the end of a log; an unreadable one is empty."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - TAIL))
            return handle.read().decode(errors="replace")
    except OSError:
        return ""
