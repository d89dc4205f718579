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

from launchers.exits import Exit

TAIL = 64 * 1024
"""Bytes read from the end of a rank's log."""

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Full))(?::\s?(.*))?$",
    re.MULTILINE,
)
_ARGPARSE = re.compile(r"^\S+\.py: error: (.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A pattern of the last exception, and what it means."""

    pattern: re.Pattern[str]
    code: Exit
    remedy: str
    early: bool = False
    """Holds only before the first step: later the same exception may be a fault."""


def _rule(pattern: str, code: Exit, remedy: str, *, early: bool = False) -> Rule:
    return Rule(pattern=re.compile(pattern), code=code, remedy=remedy, early=early)


CASCADE = re.compile(
    r"Connection (?:reset|closed|refused)|Broken pipe|NCCL|ncclRemoteError|[Gg]loo|TCPStore"
    r"|DistNetworkError|DistStoreError|DistBackendError|SignalException|SIGTERM"
)
RULES = (
    _rule(
        r"remaining_argv|error: (?:unrecognized|argument|ambiguous)",
        Exit.CONFIG,
        "mend recipe.args: ms-swift does not take this flag or value",
    ),
    _rule(
        r"CUDA out of memory|OutOfMemoryError",
        Exit.OUT_OF_MEMORY,
        "lower recipe.args max_length or raise the parallel sizes or recomputation",
        early=True,
    ),
    _rule(
        r"No space left on device|Disk quota exceeded|Errno 28|Errno 122",
        Exit.QUOTA,
        "free or enlarge the workspace",
    ),
    _rule(
        r"Read-only file system|Permission denied",
        Exit.QUOTA,
        "let the pod's user write to the workspace (podSecurityContext.fsGroup)",
    ),
    _rule(
        r"Input/output error|Stale file handle|Errno 5\b|Errno 116",
        Exit.IO,
        "look at the workspace's storage",
    ),
    _rule(
        r"401 Client Error|403 Client Error|GatedRepoError",
        Exit.AUTH,
        "set secrets.hf.existingSecret or secrets.modelscope.existingSecret",
    ),
    _rule(
        r"DatasetGenerationError|JSONDecodeError|ArrowInvalid|DatasetNotFoundError|EmptyDataset",
        Exit.DATA,
        "mend the dataset (recipe.dataset)",
    ),
    _rule(
        r"FileNotFoundError|does not exist",
        Exit.INPUT_MISSING,
        "write paths that the pods can see",
        early=True,
    ),
    _rule(
        r"^(?:ModuleNotFoundError|ImportError|ValueError|TypeError|KeyError|AttributeError"
        r"|AssertionError|NotImplementedError)",
        Exit.CONFIG,
        "mend the recipe or plugin: before the first step the same would happen again",
        early=True,
    ),
)


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
    found = [(m.start(), m.group(0).strip()) for m in _EXCEPTION.finditer(text)]
    found += [(m.start(), f"error: {m.group(1)}") for m in _ARGPARSE.finditer(text)]
    if not found:
        return None
    last = re.sub(r"^\[rank\d+\]:\s*", "", max(found)[1])
    for rule in RULES:
        if rule.pattern.search(last) and not (rule.early and started):
            return Verdict(code=rule.code, cause=last, remedy=rule.remedy)
    cascade = CASCADE.search(last) is not None
    return Verdict(code=Exit.PEER, cause=last, remedy="see the rank's log", cascade=cascade)


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
