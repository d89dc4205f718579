"""Classify why the training processes of a node ended: by their exit statuses, logs and OOM kills.

torchrun exits 1 in every case (measured: worker exit 42, SIGKILL, exception), and ms-swift has no
``@record``, so torchrun's error file stays empty: the ranks' logs are classified one by one
(``failures.py``), and torchrun's table of failures has their exit statuses.
"""

import re
import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from launchers.exits import Exit, FailureClass, LaunchError
from launchers.system import lookup
from launchers.system.failures import Verdict, end_of, tail, verdict, worst
from launchers.system.remedies import MEMORY_REMEDY, MOUNT_REMEDY

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
_MEGATRON_EXITS = (16, 17)
"""``megatron/core/rerun_state_machine.py``: a result differed, or it has to be computed again."""
LOOKUP_SECONDS = 5.0
"""Time in which a rank's log is asked for again: peers wait for why this one ended."""
_USUALLY = "usually the kernel's OOM killer"


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
        oom_kills: processes that the kernel's OOM killer ended meanwhile (``host_memory.py``);
            None if that is not known.
        code: torchrun's exit code; that of a signal is negative.
    """
    away = _away(ranks.parent)
    if away is not None:
        return away
    found = [
        replace(each, log=path)
        for path in sorted(ranks.rglob("stderr.log"))
        if (each := _of_rank(path, started=started))
    ]
    return _of_node(worst(found), tail(agent_log), started=started, oom_kills=oom_kills, code=code)


def _of_rank(log: Path, *, started: bool) -> Verdict | None:
    """Classify a rank's log; one that its storage does not give may state any cause."""
    try:
        with lookup.within(LOOKUP_SECONDS):
            text = lookup.certain(lambda: end_of(log), log)
    except LaunchError as unread:
        return Verdict(
            code=unread.code,
            id=unread.id,
            cause=unread.cause,
            remedy=unread.remedy,
            failure_class=unread.failure_class,
        )
    return verdict(text or "", started=started)


def incomplete(why: str) -> LaunchError:
    """Return the error of a training whose processes ended with the exit code 0 in mid-training."""
    return LaunchError(
        Exit.INCOMPLETE,
        f"training ended with exit code 0 before its last step: {why}",
        "find out what ended the processes, such as a plugin that calls sys.exit: see the logs",
        id="train-incomplete",
    )


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
            remedy=MOUNT_REMEDY,
            failure_class=FailureClass.STORAGE,
        )
    return None


def attribute(
    texts: Iterable[str], agent: str, *, started: bool, oom_kills: int | None = None, code: int = 0
) -> Verdict | None:
    """Classify the end of one node's training processes; None without any sign.

    A rank killed by a signal takes precedence over exceptions in its log, which were caught. But
    NCCL's watchdog aborts a rank whose peer is gone, which is a cascade, or a rank whose log states
    why: a collective timed out, a GPU failed, memory ran out. A torchrun that was killed itself
    leaves no table; then its own signal counts. Without any other sign, torchrun itself may have
    lost the connection to its peers.
    ``agent`` ends with torchrun's table of failures; ``oom_kills`` and ``code``: see ``why``.
    """
    found = worst(v for text in texts if (v := verdict(text, started=started)))
    return _of_node(found, agent, started=started, oom_kills=oom_kills, code=code)


def _of_node(
    found: Verdict | None, agent: str, *, started: bool, oom_kills: int | None, code: int
) -> Verdict | None:
    """Classify the end by the worst verdict of the ranks' logs; see ``attribute``."""
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
            id="terminated",
            cause="a training process was ended by SIGTERM, not by this launcher",
            remedy="find out who sent it: a person, or a program on the node",
            cascade=True,
            failure_class=FailureClass.PREEMPTION,
        )
    if number == 0 and found is None:
        return _of_agent(agent, started=started)
    if number in (0, signal.SIGTERM) or (found is not None and found.explains_abort):
        return found
    return Verdict(
        id="ended-by-signal",
        cause=f"a training process was killed by {signal_name(number)}",
        remedy="check the rank's log",
    )


def _of_agent(agent: str, *, started: bool) -> Verdict | None:
    """Classify an exception of torchrun itself; one of its workers is in its table or not known."""
    own = "\n".join(line for line in agent.splitlines() if not _TEE.match(line))
    found = verdict(own, started=started)
    is_its_own = found is not None and (found.cascade or "ChildFailedError" not in own)
    return found if is_its_own else None


def _signal(code: int) -> int:
    """Return the signal of an exit code, as torchrun (-9) or a shell (137) writes it; 0 if none.

    >>> _signal(-9), _signal(137), _signal(1), _signal(255)
    (9, 9, 0, 0)
    """
    return -code if code < 0 else code - 128 if code - 128 in {*signal.Signals} else 0


def _killed(oom_kills: int | None) -> Verdict:
    """Return the verdict on SIGKILL: sent by the kernel for lack of memory, or by another process.

    An eviction sends SIGTERM to the launcher first, which then never asks.
    """
    cause = "a training process was killed by SIGKILL"
    if oom_kills:
        return Verdict(
            id="killed-for-memory",
            cause=f"{cause} by the kernel's OOM killer",
            remedy=MEMORY_REMEDY,
            failure_class=FailureClass.HOST_MEMORY,
        )
    if oom_kills is None:
        return Verdict(id="killed", cause=cause, remedy=f"{_USUALLY}: {MEMORY_REMEDY}")
    return Verdict(
        id="killed-by-other",
        cause=f"{cause}, not by the kernel's OOM killer",
        remedy="find out who sent it: a person, or a program on the node",
    )


def signal_name(number: int) -> str:
    """Return the name of a signal.

    >>> signal_name(9), signal_name(40)
    ('SIGKILL', 'signal 40')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
