"""Checks between ranks before the gang starts: clocks, shared workspace, master port. Pure.

The question travels in the message ``prepared``, the answer in ``ready``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from launchers.exits import Exit
from launchers.gang.protocol import Message
from launchers.preflight.finding import Finding, failed, ok, warning
from launchers.preflight.gang_probes import UNKNOWN
from launchers.storage.visible import shared_remedy
from launchers.system.remedies import MOUNT_REMEDY, here
from launchers.units import count_text

DRIFT, BROKEN_CLOCK = 1.0, 60.0
"""Clock differences, seconds: a warning (timestamps of logs and files mislead) and a failure
(certificates and tokens of hubs are dated)."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One rank's answer with the four timestamps of the exchange."""

    name: str
    sent: float
    """Rank 0's clock when it sent the question."""
    heard: float
    """The rank's clock when it received the question."""
    said: float
    """The rank's clock when it sent the answer."""
    got: float
    """Rank 0's clock when it received the answer."""
    nonce: str
    """Nonce read on the workspace, empty if it is missing, or an error after ``UNKNOWN``."""
    port: str
    """Nonce read from the master port, or an error."""
    gpu_model: str

    @property
    def skew(self) -> float:
        """Return the offset of its clock, seconds, as NTP defines it (RFC 5905, section 8)."""
        return ((self.heard - self.sent) + (self.said - self.got)) / 2


def answer_of(message: Message) -> Answer:
    """Parse a rank's ``ready`` message, to which both sides have added the timestamps.

    Raises:
        KeyError: it does not contain an answer.
    """
    answer = message["preflight"]
    return Answer(
        name=str(message["name"]),
        sent=float(message["sent"]),
        heard=float(message["heard"]),
        said=float(message["said"]),
        got=float(message["got"]),
        nonce=str(answer["nonce"]),
        port=str(answer["port"]),
        gpu_model=str(answer["card"]),
    )


def judge_answers(answers: Sequence[Answer], nonce: str, gpu_model: str) -> list[Finding]:
    """Judge all answers.

    Rank 0 wrote ``nonce`` on the workspace and sends it at the port.
    """
    return [
        *clocks(answers),
        *shared(answers, nonce),
        *reached(answers, nonce),
        *alike(answers, gpu_model),
    ]


def clocks(answers: Sequence[Answer]) -> list[Finding]:
    """Check the differences between clocks."""
    found, remedy = [], "check the time service of that node (chronyc tracking)"
    for answer in answers:
        if abs(answer.skew) > DRIFT:
            seen = f"its clock is {answer.skew:+.1f} s from rank 0's"
            act = failed if abs(answer.skew) > BROKEN_CLOCK else warning
            found.append(act("clock", seen, remedy, who=answer.name))
    widest = max((abs(answer.skew) for answer in answers), default=0.0)
    return found or [ok("clock", f"at most {widest:.3f} s apart")]


def shared(answers: Sequence[Answer], nonce: str) -> list[Finding]:
    """Check that every rank reads rank 0's nonce on the workspace.

    A node whose mount does not answer is a fault of that node (IO), not of the configuration.
    """
    missing = "it does not see the file that rank 0 wrote: the workspace is not shared"
    found = [
        failed("workspace", answer.nonce, MOUNT_REMEDY, who=answer.name, code=Exit.IO)
        if answer.nonce.startswith(UNKNOWN)
        else failed("workspace", missing, shared_remedy(), who=answer.name, code=Exit.CONFIG)
        for answer in answers
        if answer.nonce != nonce
    ]
    return found or [ok("workspace", f"seen by {count_text(len(answers) + 1, 'node')}")]


def reached(answers: Sequence[Answer], nonce: str) -> list[Finding]:
    """Check that every rank reached rank 0's master port."""
    found = [
        failed(
            "port",
            f"it cannot reach rank 0's master port: {answer.port or 'no answer'}",
            here(
                "check NetworkPolicies and firewalls, or set rendezvous.masterPort",
                "check firewalls, or set another MASTER_PORT on all hosts",
            ),
            who=answer.name,
        )
        for answer in answers
        if answer.port != nonce
    ]
    return found or [ok("port", f"reached by {count_text(len(answers), 'node')}")]


def alike(answers: Sequence[Answer], gpu_model: str) -> list[Finding]:
    """Warn about different GPU models in a gang: the slowest sets the pace."""
    kinds = Counter([gpu_model, *(answer.gpu_model for answer in answers)])
    if len(kinds) == 1:
        return []
    seen = ", ".join(
        f"{count_text(count, 'node')} with {name or 'no GPU'}" for name, count in kinds.items()
    )
    return [warning("cards", seen, "set gpuModel, and a nodeSelector for one type of node")]
