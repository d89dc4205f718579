"""Classify why training ended: from the ranks' logs to a class and an exit code of the contract.

torchrun exits 1 in every case (measured: worker exit 42, SIGKILL, exception), and ms-swift has no
``@record``, so torchrun's error file stays empty. The last exception in each rank's stderr decides,
by the patterns of ``failure_rules/``.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from launchers.exits import CLASSES, NOTE, Exit, FailureClass, LaunchError
from launchers.system.failure_rules.causes import CAUSES
from launchers.system.failure_rules.rule import (
    CASCADE,
    MEMORY_REMEDY,
    RECIPE_REMEDY,
    TERMINATED,
    WRAPPERS,
    FailureRule,
)
from launchers.system.failure_rules.rules import RULES

TAIL = 64 * 1024
"""Bytes read from the end of a rank's log."""

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?"
    r"((?:\w+\.)*_*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Full|Timeout|Invalid|Enabled|ZipFile"
    r"|GzipFile|Unavailable|Resources|Requests)|Exception|socket\.\w+|(?:\w+\.)+[eE]rror)(?::\s?(.*))?$"
    rf"(?:\n(?:\[rank\d+\]:\s*)?{NOTE}\w+ \[[\w,-]*\](?: [\w-]+)?$)?",
    re.MULTILINE,
)
_RAISED = re.compile(
    r'^(?:\[rank\d+\]:)?\s+File "[^"]*/(?:swift|megatron|mcore_bridge)/[^"]*", line \d+, in .*\n'
    r"(?:\[rank\d+\]:)?\s+raise \w+.*\n"
    r"(?:(?:\[rank\d+\]:)?\s[\s^~]*\n)?"
    r"(?:\[rank\d+\]:\s*)?((?:RuntimeError|Exception)\b.*)",
    re.MULTILINE,
)
"""An exception that the training code raises itself, after a check. What torch or CUDA raise is of
the same type, and may be transient."""
_TERMINATE = re.compile(
    r"terminate called after throwing an instance of '([^']+)'\s+what\(\):\s*(.*)"
)
"""The end of a C++ thread, such as NCCL's watchdog."""
_WATCHDOG = re.compile(r"watchdog thread terminated with exception: (NCCL error.*)")
"""The same, where its process ended before it could print more."""
_OWN = re.compile(rf"(.*LaunchError: .*)\n.*{NOTE}(\w+) \[([\w,-]*)\](?: ([\w-]+))?")
_ARGPARSE = re.compile(r"^\S+\.py: error: (.*)$", re.MULTILINE)
_IGNORED = re.compile(
    r"^Exception ignored in.*\n(?:Traceback .*\n)?(?:[ \t]+.*\n)*(?:\S.*(?:\n|\Z))?", re.MULTILINE
)
"""Exceptions raised by finalisers at exit are never the cause."""
_CHAINED = re.compile(
    r"The above exception was the direct cause of|During handling of the above exception"
)
_ROOT_EXIT = re.compile(
    r"Root Cause \(first observed failure\):.*?exitcode\s*:\s*(-?\d+)", re.DOTALL
)
"""The root cause in torchrun's table; ranks that torchrun terminated are listed above it."""
_TABLE_END = re.compile(
    rb"^Root Cause \(first observed failure\):$.*^=+$", re.DOTALL | re.MULTILINE
)
"""``torch/distributed/elastic/multiprocessing/errors/__init__.py: _MSG_FORMAT_TEMPLATE``."""
_TEE = re.compile(r"\[\w*?\d+\]:")
"""Begins a worker's line in torchrun's output."""
_PROGRESS = re.compile(r".*\d%\|.*\| \d+/\d+ \[[^\]]*\]")
"""The bar of tqdm, which ends without a new line."""
_ABORTS = frozenset(rule.id for rule in CAUSES if rule.in_log)
_ABORTING = frozenset({FailureClass.INFRA, FailureClass.GPU_MEMORY, FailureClass.HOST_MEMORY})
"""Failures of the node that C++ code ends its process for, after Python has raised them, too."""
_WEAK = frozenset({"exception", *(rule.id for rule in CAUSES if rule.weak)})
_MEGATRON_EXITS = (16, 17)
"""``megatron/core/rerun_state_machine.py``: a result differed, or it has to be computed again."""
_USUALLY = "usually the kernel's OOM killer"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Classification of one log."""

    code: Exit
    id: str
    cause: str
    remedy: str
    cascade: bool = False
    failure_class: FailureClass = FailureClass.UNKNOWN

    @property
    def tells_abort(self) -> bool:
        """Return whether it explains why a rank aborted itself (SIGABRT, SIGBUS)."""
        return self.cascade or self.id in _ABORTS or self.failure_class in _ABORTING

    def error(self, logs: Path | None = None) -> LaunchError:
        """Return the error that ends the launcher.

        Args:
            logs: folder that the remedy names, if given.
        """
        remedy = self.remedy if logs is None else f"{self.remedy}; logs: {logs}"
        return LaunchError(
            self.code, self.cause, remedy, id=self.id, failure_class=self.failure_class
        )


def verdict(text: str, *, started: bool) -> Verdict | None:
    """Classify one log by its last exception; None if it holds none and no line states the cause.

    Args:
        text: the end of a rank's stderr.
        started: whether a training step was completed.

    >>> found = verdict("ValueError: remaining_argv: ['--lora_rnk', '8']", started=False)
    >>> found.code.name, str(found.failure_class)
    ('CONFIG', 'user')
    >>> verdict("OSError: [Errno 28] No space left on device: 'x'", started=True).code.name
    'QUOTA'
    """
    text = _IGNORED.sub("", text)
    chain = _last_chain(text)
    found = _of_chain(chain, started=started) if chain else None
    if found is not None and not started and _is_own_check(found, text):
        return replace(
            found,
            code=Exit.CONFIG,
            id="raised-before-first-step",
            remedy=RECIPE_REMEDY,
            failure_class=FailureClass.USER,
        )
    if found is None or found.cascade or found.id in _WEAK:
        return _of_lines(text, started=started) or found or _of_terminate(text)
    return found


def _is_own_check(found: Verdict, text: str) -> bool:
    """Return whether the training code itself raised an exception of no known cause."""
    raised = (match[1].rstrip() for match in _RAISED.finditer(text))
    return found.id == "exception" and found.cause in raised


def _of_chain(chain: list[str], *, started: bool) -> Verdict:
    """Classify the last exception by itself, by what it wraps, or as a cascade."""
    last = chain[-1]
    own = _OWN.fullmatch(last)
    if own and (code := Exit.__members__.get(own[2])):
        return Verdict(
            code=code,
            id=own[3],
            cause=own[1],
            remedy="follow the message",
            failure_class=FailureClass(own[4] or CLASSES[code]),
        )
    wrapped = list(reversed(chain)) if WRAPPERS.search(last) else [last]
    wrapped.sort(key=lambda e: bool(WRAPPERS.search(e)))
    found = _first_match(CAUSES, wrapped, started=started)
    if found is None and any(CASCADE.search(exception) for exception in chain):
        terminated = TERMINATED.search(last)
        return Verdict(
            code=Exit.PEER,
            id="cascade",
            cause=last,
            remedy="check the rank's log",
            cascade=True,
            failure_class=FailureClass.PREEMPTION if terminated else FailureClass.NETWORK,
        )
    found = found or _first_match(RULES, wrapped, started=started)
    return found or Verdict(
        code=Exit.PEER, id="exception", cause=last, remedy="check the rank's log"
    )


def _first_match(
    rules: Iterable[FailureRule], messages: Iterable[str], *, started: bool
) -> Verdict | None:
    """Return the verdict of the first message that a rule matches."""
    rules = tuple(rules)
    for message in messages:
        for rule in rules:
            if rule.pattern.search(message) and not (rule.early and started):
                return Verdict(
                    code=rule.code_at(started=started),
                    id=rule.id,
                    cause=message,
                    remedy=rule.remedy,
                    failure_class=rule.failure_class,
                )
    return None


def _of_lines(text: str, *, started: bool) -> Verdict | None:
    """Classify by a line that states the cause: C++ threads and the driver raise no exception."""
    rules = [rule for rule in CAUSES if rule.in_log and not (rule.early and started)]
    lines = [" ".join(_PROGRESS.sub("", line).split()) for line in text.splitlines()]
    by_rule = ((rule, line) for rule in rules for line in lines if rule.pattern.search(line))
    rule, line = next(by_rule, (None, ""))
    return _first_match([rule], [line], started=started) if rule else None


def _of_terminate(text: str) -> Verdict | None:
    """Classify the end of a C++ thread in a process that raised no exception."""
    ends = [f"{kind}: {what}" for kind, what in _TERMINATE.findall(text)]
    ends = ends or _WATCHDOG.findall(text)
    return _of_chain(ends[-1:], started=True) if ends else None


def _last_chain(text: str) -> list[str]:
    """Return the last exception and its causes, the first cause first."""
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


def is_reported(output: bytes) -> bool:
    r"""Return whether torchrun has ended its workers and printed its whole table of failures.

    Nothing of interest follows: Python then collects the garbage of all imported modules, about
    2 s with torch 2.11. Lines of workers begin with the prefix of ``--tee``.

    >>> table = b"Root Cause (first observed failure):\n[0]:\n  exitcode  : -9 (pid: 7)\n"
    >>> is_reported(table), is_reported(table + b"=====\n"), is_reported(b"[default0]:" + table)
    (False, True, False)
    """
    return _TABLE_END.search(output) is not None


def why(
    ranks: Path, agent_log: Path, *, started: bool, oom_kills: int | None = None, code: int = 0
) -> Verdict | None:
    """Classify the end of one node's training processes after torchrun has ended or failed.

    Args:
        ranks: torchrun's ``--log-dir``.
        agent_log: output of torchrun itself.
        started: whether any attempt has completed a training step.
        oom_kills: processes that the kernel's OOM killer ended meanwhile (``memory_events.py``);
            None if that is not known.
        code: torchrun's exit code; that of a signal is negative.
    """
    away = _away(ranks.parent)
    if away is not None:
        return away
    texts = [tail(path) for path in sorted(ranks.rglob("stderr.log"))]
    agent = tail(agent_log)
    return attribute(texts, agent, started=started, oom_kills=oom_kills, code=code)


def _away(folder: Path) -> Verdict | None:
    """Return the verdict if the attempt's folder, which the launcher has made, cannot be found.

    Paths that training misses then are not the user's, and no log can be read.
    """
    try:
        folder.stat()
    except OSError as error:
        return Verdict(
            code=Exit.IO,
            id="workspace-away",
            cause=f"{folder}, which this attempt has made, is gone: {error.strerror}",
            remedy="check the mount of the workspace on this node, and its server",
            failure_class=FailureClass.STORAGE,
        )
    return None


def attribute(
    texts: Iterable[str],
    agent: str,
    *,
    started: bool,
    oom_kills: int | None = None,
    code: int = 0,
) -> Verdict | None:
    """Classify the end of one node's training processes; None without any sign.

    A rank killed by a signal takes precedence over exceptions in its log, which were caught. But
    NCCL's watchdog aborts a rank whose peer is gone, which is a cascade, or a rank whose log states
    why: a collective timed out, a GPU failed, memory ran out. A torchrun that was killed itself
    leaves no table; then its own signal counts. Without any other sign, torchrun itself may have
    lost the connection to its peers.

    Args:
        texts: the end of each rank's stderr.
        agent: the end of torchrun's output, with its table of failures.
        started: whether any attempt has completed a training step.
        oom_kills: see ``why``.
        code: see ``why``.
    """
    found = worst(v for text in texts if (v := verdict(text, started=started)))
    exits = _ROOT_EXIT.findall(agent) or [code] * (code < 0)
    number = _signal(int(exits[-1])) if exits else 0
    if number == signal.SIGKILL:
        return _killed(oom_kills)
    if exits and int(exits[-1]) in _MEGATRON_EXITS and found is None:
        return Verdict(
            code=Exit.PREFLIGHT,
            id="result-not-reproduced",
            cause=f"Megatron ended with {exits[-1]}: a result differed when it was computed again",
            remedy="check the node's GPUs; cordon the node if it fails again",
            failure_class=FailureClass.INFRA,
        )
    if number == signal.SIGTERM and found is None:
        return Verdict(
            code=Exit.PEER,
            id="terminated",
            cause="a training process was ended by SIGTERM, not by this launcher",
            remedy="find out who sent it: a person, or a program on the node",
            cascade=True,
            failure_class=FailureClass.PREEMPTION,
        )
    if number == 0 and found is None:
        return _of_agent(agent, started=started)
    if number in (0, signal.SIGTERM) or (found is not None and found.tells_abort):
        return found
    return Verdict(
        code=Exit.PEER,
        id="ended-by-signal",
        cause=f"a training process was killed by {signal_name(number)}",
        remedy="check the rank's log",
    )


def _of_agent(agent: str, *, started: bool) -> Verdict | None:
    """Classify an exception of torchrun itself, if it is a cascade: others stand in its table."""
    own = "\n".join(line for line in agent.splitlines() if not _TEE.match(line))
    found = verdict(own, started=started)
    return found if found is not None and found.cascade else None


def _signal(code: int) -> int:
    """Return the signal of an exit code, as torchrun (-9) or a shell (137) writes it; 0 if none.

    >>> _signal(-9), _signal(137), _signal(1)
    (9, 9, 0)
    """
    return -code if code < 0 else code - 128 if code > 128 else 0


def _killed(oom_kills: int | None) -> Verdict:
    """Tell apart who sent SIGKILL: the kernel for lack of memory, or somebody.

    An eviction sends SIGTERM to the launcher first, which then never asks.
    """
    cause = "a training process was killed by SIGKILL"
    if oom_kills:
        return Verdict(
            code=Exit.PEER,
            id="killed-for-memory",
            cause=f"{cause} by the kernel's OOM killer",
            remedy=MEMORY_REMEDY,
            failure_class=FailureClass.HOST_MEMORY,
        )
    if oom_kills is None:
        return Verdict(
            code=Exit.PEER, id="killed", cause=cause, remedy=f"{_USUALLY}: {MEMORY_REMEDY}"
        )
    return Verdict(
        code=Exit.PEER,
        id="killed-by-other",
        cause=f"{cause}, not by the kernel's OOM killer",
        remedy="find out who sent it: a person, or a program on the node",
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Choose the root cause among several ranks.

    A cause comes before a collective that timed out because of it, and before cascades; a known one
    before an unknown one.
    """

    def order(v: Verdict) -> tuple[bool, bool, bool]:
        is_hang = v.failure_class == FailureClass.HANG
        return v.cascade, is_hang, v.id == "exception"

    return min(verdicts, key=order, default=None)


def signal_name(number: int) -> str:
    """Return the name of a signal.

    >>> signal_name(9), signal_name(40)
    ('SIGKILL', 'signal 40')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tail(path: Path) -> str:
    """Read the end of a log; return an empty text if it is unreadable."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - TAIL))
            return handle.read().decode(errors="replace")
    except OSError:
        return ""
