"""What the ranks tell rank 0 before the gang starts, and what rank 0 makes of it. Pure.

The question travels with ``prepared``, the answer with ``ready``: no message of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.exits import Exit
from launchers.gang.protocol import Message
from launchers.preflight.finding import Finding, failed, ok, warning

DRIFT, BROKEN_CLOCK = 1.0, 60.0
"""Seconds between two clocks: a warning (logs and file times mislead), a failure (certificates and
tokens of the hubs' stores are dated, a clock that far off is a fault)."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One rank's answer, with the four times of an exchange."""

    name: str
    sent: float
    """Rank 0's clock when it asked."""
    heard: float
    """The rank's clock when it heard that."""
    said: float
    """The rank's clock when it answered."""
    got: float
    """Rank 0's clock when the answer came."""
    nonce: str
    """What it read on the workspace."""
    port: str
    """What it heard at the master port."""
    card: str

    @property
    def skew(self) -> float:
        """Return the seconds that its clock is ahead, as NTP reckons them (RFC 5905, section 8).

        >>> Answer(name="", sent=0, heard=12, said=20, got=10, nonce="", port="", card="").skew
        11.0
        """
        return ((self.heard - self.sent) + (self.said - self.got)) / 2


def answer_of(message: Message) -> Answer:
    """Parse a rank's ``ready``, to which member and leader have added the times.

    Raises:
        KeyError: it holds no answer.
    """
    told = message["preflight"]
    return Answer(
        name=str(message["name"]),
        sent=float(message["sent"]),
        heard=float(message["heard"]),
        said=float(message["said"]),
        got=float(message["got"]),
        nonce=str(told["nonce"]),
        port=str(told["port"]),
        card=str(told["card"]),
    )


def judge(answers: Sequence[Answer], nonce: str, card: str) -> list[Finding]:
    """Judge all answers.

    Args:
        answers: of the other ranks.
        nonce: what rank 0 wrote on the workspace, and tells at the port.
        card: rank 0's GPUs.
    """
    return [
        *clocks(answers),
        *shared(answers, nonce),
        *reached(answers, nonce),
        *alike(answers, card),
    ]


def clocks(answers: Sequence[Answer]) -> list[Finding]:
    """Check that the clocks agree."""
    found, remedy = [], "look at the time service of that node (chronyc tracking)"
    for answer in answers:
        if abs(answer.skew) > DRIFT:
            seen = f"its clock is {answer.skew:+.1f} s from rank 0's"
            act = failed if abs(answer.skew) > BROKEN_CLOCK else warning
            found.append(act("clock", seen, remedy, who=answer.name))
    widest = max((abs(answer.skew) for answer in answers), default=0.0)
    return found or [ok("clock", f"at most {widest:.3f} s apart")]


def shared(answers: Sequence[Answer], nonce: str) -> list[Finding]:
    """Check that every rank sees what rank 0 wrote on the workspace just now."""
    found = [
        failed(
            "workspace",
            "it does not see what rank 0 wrote: the workspace is not shared",
            "use a workspace that all pods share: existingClaim, pvc (ReadWriteMany), nfs",
            who=answer.name,
            code=Exit.CONFIG,
        )
        for answer in answers
        if answer.nonce != nonce
    ]
    return found or [ok("workspace", f"seen by {len(answers) + 1} nodes")]


def reached(answers: Sequence[Answer], nonce: str) -> list[Finding]:
    """Check that every rank reached rank 0's master port."""
    found = [
        failed(
            "port",
            f"it cannot reach rank 0's master port: {answer.port or 'no word'}",
            "look at NetworkPolicies and firewalls, or set rendezvous.masterPort",
            who=answer.name,
        )
        for answer in answers
        if answer.port != nonce
    ]
    return found or [ok("port", f"reached by {len(answers)} nodes")]


def alike(answers: Sequence[Answer], card: str) -> list[Finding]:
    """Warn of a gang of different cards: the slowest sets the pace."""
    kinds = Counter([card, *(answer.card for answer in answers)])
    if len(kinds) == 1:
        return []
    seen = ", ".join(f"{count} nodes with {name or 'no GPU'}" for name, count in kinds.items())
    return [warning("cards", seen, "set gpuModel and a nodeSelector of one kind of node")]
