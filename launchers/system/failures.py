"""Classify why training ended: from the ranks' logs to an exit code of the contract.

torchrun exits 1 in every case (measured: worker exit 42, SIGKILL, exception), and ms-swift has no
``@record``, so torchrun's error file stays empty. The last exception in each rank's stderr decides.
Add a rule for a new message to ``RULES``; the first rule that matches wins.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launchers.exits import NOTE, Exit


@dataclass(frozen=True, kw_only=True)
class FailureRule:
    """A pattern of the last exception and its exit code."""

    id: str
    pattern: re.Pattern[str]
    code: Exit
    remedy: str
    early: bool = False
    """Applies only before the first step: later, the same exception may be transient."""


def _rule(id: str, pattern: str, code: Exit, remedy: str, *, early: bool = False) -> FailureRule:
    return FailureRule(id=id, pattern=re.compile(pattern), code=code, remedy=remedy, early=early)


CASCADE = re.compile(
    r"Connection (?:reset|closed|refused)|Broken pipe|NCCL|ncclRemoteError|[Gg]loo|TCPStore"
    r"|DistNetworkError|DistStoreError|DistBackendError|SignalException|SIGTERM"
)
WRAPPERS = re.compile(r"DatasetGenerationError")
"""Exceptions that only wrap another one."""
RULES = (
    _rule(
        "flag-not-taken",
        r"remaining_argv|error: (?:unrecognized|argument|ambiguous)",
        Exit.CONFIG,
        "correct recipe.args: ms-swift does not accept this flag or value",
    ),
    _rule(
        "gpu-memory",
        r"CUDA out of memory|OutOfMemoryError",
        Exit.OUT_OF_MEMORY,
        "lower recipe.args.max_length, or increase the parallel sizes or recomputation",
        early=True,
    ),
    _rule(
        "gpu-missing",
        r"setup doesn't support bf16/gpu|libcuda|No CUDA GPUs|no GPUs found|CUDA driver version",
        Exit.PREFLIGHT,
        "check the node's GPUs and driver",
    ),
    _rule(
        "workspace-full",
        # the second is torch.save's only message for a full disk
        r"No space left on device|Disk quota exceeded|Errno 28|Errno 122"
        r"|inline_container\.cc.*unexpected pos",
        Exit.QUOTA,
        "free space on the workspace or enlarge it",
    ),
    _rule(
        "workspace-permission",
        r"^(?!.*ConnectionError).*(?:Read-only file system|Permission denied)",
        Exit.QUOTA,
        "grant the pod's user write access to the workspace (podSecurityContext.fsGroup)",
    ),
    _rule(
        "workspace-fault",
        r"Input/output error|Stale file handle|Errno 5\b|Errno 116",
        Exit.IO,
        "check the storage of the workspace",
    ),
    _rule(
        "hub-access",
        r"401 Client Error|403 Client Error|GatedRepoError",
        Exit.AUTH,
        "set secrets.hf.existingSecret or secrets.modelscope.existingSecret",
    ),
    _rule(
        "trainer-no-step",
        # transformers trainer.py, for a data loader without batches
        r"max_steps must be set to a positive value if dataloader does not have a length",
        Exit.DATA,
        "the dataset has too few rows for one step: add rows, lower "
        "recipe.args.per_device_train_batch_size, or set dataloader_drop_last: false",
        early=True,
    ),
    _rule(
        "dataset-broken",
        r"DatasetGenerationError|ArrowInvalid|DatasetNotFoundError|EmptyDataset",
        Exit.DATA,
        "correct the dataset (recipe.dataset)",
    ),
    _rule(
        "dataset-not-json",
        r"JSONDecodeError",  # later it may come from a server's response
        Exit.DATA,
        "correct the dataset (recipe.dataset)",
        early=True,
    ),
    _rule(
        "gradients-not-finite",
        # megatron-core's own check (distributed/param_and_grad_buffer.py), where grad_check is left
        # out
        r"found (?:NaN|Inf) in local grad norm",
        Exit.DATA,
        "inspect the rows of that step, lower the learning rate, or try other GPUs",
    ),
    _rule(
        "path-missing",
        r"FileNotFoundError|does not exist",
        Exit.INPUT_MISSING,
        "use paths that exist in the pods",
        early=True,
    ),
    _rule(
        "recipe-or-plugin",
        r"^(?:ModuleNotFoundError|ImportError|ValueError|TypeError|KeyError|AttributeError"
        r"|AssertionError|NotImplementedError)",
        Exit.CONFIG,
        "correct the recipe or plugin: a restart would fail again before the first step",
        early=True,
    ),
)

TAIL = 64 * 1024
"""Bytes read from the end of a rank's log."""

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?"
    r"((?:\w+\.)*_*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Full))(?::\s?(.*))?$"
    rf"(?:\n(?:\[rank\d+\]:\s*)?{NOTE}\w+ \[[\w,-]*\]$)?",
    re.MULTILINE,
)
_OWN = re.compile(rf"(.*LaunchError: .*)\n.*{NOTE}(\w+) \[([\w,-]*)\]")
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
_OOM_KILL = (
    "usually the kernel's OOM killer: check the pod's memory limit (resources.limits.memory)"
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Classification of one log."""

    code: Exit
    id: str
    cause: str
    remedy: str
    cascade: bool = False


def verdict(text: str, *, started: bool) -> Verdict | None:
    """Classify one log by its last exception; None if it holds none.

    Args:
        text: the end of a rank's stderr.
        started: whether a training step was completed.

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
        return Verdict(code=code, id=own[3], cause=own[1], remedy="follow the message")
    if any(CASCADE.search(exception) for exception in chain):
        return Verdict(
            code=Exit.PEER, id="cascade", cause=last, remedy="check the rank's log", cascade=True
        )
    wrapped = reversed(chain) if WRAPPERS.search(last) else [last]
    for exception in sorted(wrapped, key=lambda e: bool(WRAPPERS.search(e))):
        for rule in RULES:
            if rule.pattern.search(exception) and not (rule.early and started):
                return Verdict(code=rule.code, id=rule.id, cause=exception, remedy=rule.remedy)
    return Verdict(code=Exit.PEER, id="exception", cause=last, remedy="check the rank's log")


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


def why(ranks: Path, agent_log: Path, *, started: bool) -> Verdict | None:
    """Classify the end of one node's training processes after torchrun has exited.

    Args:
        ranks: torchrun's ``--log-dir``.
        agent_log: output of torchrun itself.
        started: whether any attempt has completed a training step.

    A rank killed by a signal takes precedence over exceptions in its log, which were caught. But
    NCCL's watchdog aborts a rank whose peer is gone, which is a cascade.
    """
    texts = [tail(path) for path in sorted(ranks.rglob("stderr.log"))]
    found = worst(v for text in texts if (v := verdict(text, started=started)))
    exits = _ROOT_EXIT.findall(tail(agent_log))
    number = -int(exits[-1]) if exits else 0
    if number <= 0 or number == signal.SIGTERM or (found is not None and found.cascade):
        return found
    return Verdict(
        code=Exit.PEER,
        id="killed",
        cause=f"a training process was killed by {signal_name(number)}",
        remedy=_OOM_KILL if number == signal.SIGKILL else "check the rank's log",
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Choose the root cause among several ranks: causes before cascades, known before unknown."""

    def order(v: Verdict) -> tuple[bool, bool]:
        return v.cascade, v.code == Exit.PEER

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
