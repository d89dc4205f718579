"""Findings of preflight checks. Pure."""

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
    """Observation, with its unit."""
    who: str = ""
    """Rank, device or pair at fault, if not this pod."""
    remedy: str = ""
    code: Exit = Exit.PREFLIGHT
    """Exit code of a failure: a user code if a restart would fail again."""

    def cause(self) -> str:
        """Return the text for a termination message."""
        return ": ".join(filter(None, [self.check, self.who, self.seen]))

    def row(self) -> dict[str, str]:
        """Return the fields for the report."""
        fields = {"check": self.check, "state": self.state, "seen": self.seen}
        return fields | {k: v for k in ("who", "remedy") if (v := getattr(self, k))}


def ok(check: str, seen: str) -> Finding:
    """Return a passed finding."""
    return Finding(check=check, state="ok", seen=seen)


def skipped(check: str, why: str) -> Finding:
    """Return the finding of a skipped check."""
    return Finding(check=check, state="skipped", seen=why)


def warning(check: str, seen: str, remedy: str, *, who: str = "") -> Finding:
    """Return a warning: the run continues."""
    return Finding(check=check, state="warning", seen=seen, remedy=remedy, who=who)


def failed(
    check: str, seen: str, remedy: str, *, who: str = "", code: Exit = Exit.PREFLIGHT
) -> Finding:
    """Return a finding that ends the run."""
    return Finding(check=check, state="failed", seen=seen, remedy=remedy, who=who, code=code)


def failure(findings: Sequence[Finding], name: str) -> LaunchError | None:
    """Return the error of a failed preflight; None if it passed.

    The error lists all failures; a user code takes precedence, since a restart would fail again.
    """
    bad = [f for f in findings if f.state == "failed"]
    if not bad:
        return None
    first = next((f for f in bad if f.code in USER), bad[0])
    rest = [f for f in bad if f is not first]
    cause = " | ".join(f.cause() for f in (first, *rest))
    return LaunchError(first.code, f"{name}: {cause}", first.remedy, id=f"preflight-{first.check}")
