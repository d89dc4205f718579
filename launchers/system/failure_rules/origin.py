"""What raised an exception: the training code after a check of its own, or a plugin."""

import re

_TRAINING = (
    r"/(?:swift|megatron|mcore_bridge|deepspeed|transformers|peft|trl|transformer_engine"
    r"|accelerate)/"
)
_RANK = r"(?:\[rank\d+\]:)?"


def _raised(path: str, statement: str, kinds: str) -> re.Pattern[str]:
    """Return a pattern of exceptions that a statement in the innermost file of a trace raises."""
    return re.compile(
        rf'^{_RANK}\s+File "{path}", line \d+, in .*\n{_RANK}\s+{statement} .*\n'
        rf"(?:{_RANK}[ \t]+(?!File ).*\n)*(?:\[rank\d+\]:\s*)?((?:{kinds})\b.*)",
        re.MULTILINE,
    )


CHECK = _raised(rf'[^"]*{_TRAINING}[^"]*', "raise", "RuntimeError|Exception")
"""Raised by the training code itself. What torch or CUDA raise is of the same type, and may be
transient."""
PLUGIN = _raised(
    rf'/(?![^"]*(?:-packages/|/lib/python|/torch/|/launchers/|{_TRAINING}))[^"]*',
    "(?:raise|assert)",
    "(?:Assertion|Key|Runtime|Type|Value)Error|Exception",
)
"""Raised by a file outside of packages, whose words are not the system's."""
