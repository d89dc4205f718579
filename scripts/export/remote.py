"""What a hub or registry holds, and why it refuses."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from scripts.problem import Problem, UnknownState

LATER = (408, 409, 412, 423, 425, 429)
"""HTTP statuses of a destination that is busy, or changes meanwhile."""
SHA256, GIT = "sha256:", "git:"


@dataclass(frozen=True)
class Content:
    """A file of the export, whose large ones are digested once."""

    path: Path
    sha256: str

    def has(self, digest: str) -> bool:
        """Return whether it has a digest: its SHA-256, or that of a blob of Git."""
        if not digest.startswith(GIT):
            return SHA256 + self.sha256 == digest
        content = self.path.read_bytes()
        return GIT + hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest() == digest


def refusal(place: str, status: int, said: str, token: str) -> Problem:
    """Return the problem for an answer of a hub or registry.

    ``status`` 0 is no answer; the secret ``token`` is removed from the words ``said``.
    """
    words = " ".join((said.replace(token, "[token]") if token else said).split())[-300:]
    if status == 401:
        remedy = "log in with its client, or give --token env:NAME or a file [push-token]"
        return Problem(f"{place} refuses the token ({words}); {remedy}")
    if status == 403:
        remedy = "ask its owner for the right to write, or choose another name [push-forbidden]"
        return Problem(f"{place}: you may not write there ({words}); {remedy}")
    if 400 <= status < 500 and status not in LATER:
        remedy = "check its address and name, or ask its owner [push-refused]"
        return Problem(f"{place} refuses the export, HTTP {status} ({words}); {remedy}")
    answer = f"answers with HTTP {status}" if status else "does not answer"
    remedy = "push again: what has arrived is not sent again [push-unreachable]"
    return UnknownState(f"{place} {answer} ({words}); {remedy}")
