"""What one check found, and what it means for the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from launchers.exits import USER, Exit, LaunchError

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    check: str
    state: State
    seen: str
    """What was seen, with its unit."""
    who: str = ""
    """The culprit beyond this pod: a rank, a device, a pair."""
    remedy: str = ""
    code: Exit = Exit.PREFLIGHT
    """Exit code of a failure: a user code where a restart would fail again."""

    def cause(self) -> str:
        """Spell it for a termination message.

        >>> Finding(check="shm", state="failed", seen="/dev/shm has 64 MiB").cause()
        'shm: /dev/shm has 64 MiB'
        """
        return ": ".join(filter(None, [self.check, self.who, self.seen]))

    def row(self) -> dict[str, str]:
        """Spell it for the report."""
        fields = {"check": self.check, "state": self.state, "seen": self.seen}
        return fields | {k: v for k in ("who", "remedy") if (v := getattr(self, k))}


def ok(check: str, seen: str) -> Finding:
    """Build a finding that holds up nothing."""
    return Finding(check=check, state="ok", seen=seen)


def skipped(check: str, why: str) -> Finding:
    """Build the finding of a check that was not made."""
    return Finding(check=check, state="skipped", seen=why)


def warning(check: str, seen: str, remedy: str, *, who: str = "") -> Finding:
    """Build a finding that a user should look at, though the run goes on."""
    return Finding(check=check, state="warning", seen=seen, remedy=remedy, who=who)


def failed(
    check: str, seen: str, remedy: str, *, who: str = "", code: Exit = Exit.PREFLIGHT
) -> Finding:
    """Build a finding that ends the run."""
    return Finding(check=check, state="failed", seen=seen, remedy=remedy, who=who, code=code)


def failure(findings: Sequence[Finding], name: str) -> LaunchError | None:
    """Return the error of a preflight that failed, None when it passed.

    All failures are told; a user's decides the code, since after a restart it would be there again.

    Args:
        findings: all that was found.
        name: the rank that found it, with its pod and node.
    """
    bad = [f for f in findings if f.state == "failed"]
    if not bad:
        return None
    first = next((f for f in bad if f.code in USER), bad[0])
    rest = [f for f in bad if f is not first]
    cause = " | ".join(f.cause() for f in (first, *rest))
    return LaunchError(first.code, f"{name}: {cause}", first.remedy)
