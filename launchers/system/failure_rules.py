"""What the last exception of a training process means, as data: one rule a cause.

Add a rule where a log taught one; its order matters, the first that matches decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launchers.exits import Exit


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
WRAPPERS = re.compile(r"DatasetGenerationError")
"""Exceptions that only say where another one was raised."""
RULES = (
    _rule(
        r"remaining_argv|error: (?:unrecognized|argument|ambiguous)",
        Exit.CONFIG,
        "mend recipe.args: ms-swift does not take this flag or value",
    ),
    _rule(r"(?:Reference|Overlap|Packs)ConfigError", Exit.CONFIG, "do what the message says"),
    _rule(r"(?:Reference|Packs)DataError", Exit.DATA, "do what the message says"),
    _rule(
        r"CUDA out of memory|OutOfMemoryError",
        Exit.OUT_OF_MEMORY,
        "lower recipe.args max_length or raise the parallel sizes or recomputation",
        early=True,
    ),
    _rule(
        r"setup doesn't support bf16/gpu|libcuda|No CUDA GPUs|no GPUs found|CUDA driver version",
        Exit.PREFLIGHT,
        "look at the node's GPUs and driver",
    ),
    _rule(
        # the second is all that torch.save says of a full disk
        r"No space left on device|Disk quota exceeded|Errno 28|Errno 122"
        r"|inline_container\.cc.*unexpected pos",
        Exit.QUOTA,
        "free or enlarge the workspace",
    ),
    _rule(
        r"^(?!.*ConnectionError).*(?:Read-only file system|Permission denied)",
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
        # transformers trainer.py: what it says of a loader with no batch
        r"max_steps must be set to a positive value if dataloader does not have a length",
        Exit.DATA,
        "the rows make no step: add some, or lower recipe.args.per_device_train_batch_size, or "
        "write dataloader_drop_last: false",
        early=True,
    ),
    _rule(
        r"DatasetGenerationError|ArrowInvalid|DatasetNotFoundError|EmptyDataset",
        Exit.DATA,
        "mend the dataset (recipe.dataset)",
    ),
    _rule(
        r"JSONDecodeError",  # later also a server's answer
        Exit.DATA,
        "mend the dataset (recipe.dataset)",
        early=True,
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
