"""The gang's protocol: one JSON object a line over TCP, and the typed form of its messages.

All ranks of a gang run the same launcher (``Hello.digest``), so the messages carry no version.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from dataclasses import asdict, dataclass
from typing import Any

from launchers import version
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch, Settings
from launchers.exits import FREE, Exit, LaunchError

Message = dict[str, Any]
MAX_MESSAGE_BYTES = 1 << 20
"""Maximum length of a line in bytes; the connection of a sender of a longer one is closed."""
KEEPALIVE: Message = {"alive": True}


class Closed(Exception):
    """The connection has ended, or the other side has been silent for too long."""


class Connection:
    """One connection; ``send`` may be called from several threads, ``receive`` from one."""

    def __init__(self, sock: socket.socket, silence_limit: float, received: bytes = b"") -> None:
        """Wrap a connected socket.

        ``received`` bytes were read from the socket before; the longest pause is in seconds.
        """
        sock.settimeout(silence_limit)
        self._sock, self._silence_limit, self._received = sock, silence_limit, received
        self._file = sock.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            Closed: when the connection has ended.
        """
        try:
            with self._sending:
                self._sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> Message:
        """Wait for the next message that is not a keepalive.

        Raises:
            Closed: at the connection's end, after ``silence_limit``, at a malformed line.
        """
        while True:
            try:
                text = self._read_line()
                message = json.loads(text) if text.endswith(b"\n") else None
            except TimeoutError:
                raise Closed(
                    f"no message for {self._silence_limit:.0f} s: its launcher is frozen, or its "
                    "node or network is down"
                ) from None
            except (OSError, ValueError) as error:
                raise Closed(str(error)) from None
            if not isinstance(message, dict):
                raise Closed("connection closed")
            if message != KEEPALIVE:
                return message

    def _read_line(self) -> bytes:
        line, newline, self._received = self._received.partition(b"\n")
        return line + (newline or self._file.readline(MAX_MESSAGE_BYTES))

    def close(self) -> None:
        """Close the connection; wakes a thread that waits in ``receive``."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def server(port: int, backlog: int) -> socket.socket:
    """Listen on all addresses of this host, IPv4 and IPv6 where it has both."""
    if socket.has_dualstack_ipv6():
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=backlog)


def shared_digest(launcher: str, recipe: Recipe) -> str:
    """Return the digest of launcher and recipe, which all ranks of a run share."""
    return hashlib.sha256((launcher + recipe.digest).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The first message of a rank to rank 0."""

    run: str
    rank: int
    nodes: int
    processes: int
    """Training processes of this rank: equal on all ranks, as torchrun and Megatron require."""
    digest: str
    """Digest of recipe and launcher: equal on all ranks, or they would train different things."""
    pod: str
    node: str
    gang: str = ""
    """The JobSet's uid and its restart: equal on all ranks of one start; empty on bare hosts."""

    @classmethod
    def of_run(cls, settings: Settings, recipe: Recipe) -> Hello:
        """Introduce this rank of a run."""
        launcher = version.own_digest(settings.gang.launcher_digest)
        return cls.of_rank(settings.launch, shared_digest(launcher, recipe))

    @classmethod
    def of_rank(cls, launch: Launch, digest: str) -> Hello:
        """Introduce this rank, with the digest that all ranks must share."""
        return cls(
            run=launch.run,
            rank=launch.place.rank,
            nodes=launch.place.nodes,
            processes=launch.nproc_per_node,
            digest=digest,
            pod=launch.pod,
            node=launch.node,
            gang=f"{launch.jobset_uid}/{launch.restart_attempt}" * bool(launch.jobset_uid),
        )

    def to_wire(self) -> Message:
        """Build the message."""
        return {"hello": vars(self)}

    @classmethod
    def from_wire(cls, message: Message) -> Hello | None:
        """Parse the message; None when it is malformed: any program may connect to the port.

        >>> hello = Hello(run="r", rank=1, nodes=2, processes=8, digest="d", pod="", node="")
        >>> Hello.from_wire(hello.to_wire()).name
        'rank 1'
        """
        fields = message.get("hello")
        numbers = dict.fromkeys(("rank", "nodes", "processes"), int)
        types = numbers | dict.fromkeys(("run", "digest", "pod", "node", "gang"), str)
        if not isinstance(fields, dict) or fields.keys() != types.keys():
            return None
        if not all(isinstance(fields[name], type_) for name, type_ in types.items()):
            return None
        return cls(**fields)

    @property
    def origin(self) -> list[str]:
        """Return the run and the start that it belongs to; rank 0's first message has its own."""
        return [self.run, self.gang]

    @property
    def start(self) -> str:
        """Return the start in words; empty on bare hosts."""
        return f" (JobSet uid/restart {self.gang})" if self.gang else ""

    @property
    def name(self) -> str:
        """Return the rank with its pod and node."""
        where = " on ".join(filter(None, [self.pod, self.node]))
        return f"rank {self.rank}" + (f" ({where})" if where else "")


@dataclass(frozen=True, kw_only=True)
class PreflightQuestion:
    """Rank 0's part of the preflight: facts that every rank checks or uses."""

    nonce: str
    """Path of the nonce file: a rank that reads the nonce shares rank 0's workspace."""
    collective_port: int
    """Port of the rendezvous of the GPU measurements."""


@dataclass(frozen=True, kw_only=True)
class StartMessage:
    """Rank 0's decisions about this start of the gang, sent to every rank."""

    attempt: int
    """Number of the attempt: the folder of its logs."""
    outputs: tuple[tuple[str, str], ...] = ()
    """Path and digest of each output of the stages before training: each rank verifies them."""
    resume: str = ""
    """Name of the checkpoint that training resumes from; empty for a first start."""
    skip: str = ""
    """Reason why nothing is trained; empty when training starts."""
    preflight: PreflightQuestion | None = None
    """None when the preflight is skipped."""
    lease: str = ""
    """The lock of the run and its owner, see ``storage/run_lease.py``; empty without training."""
    prompt_once: bool = False
    """Whether prompts of pairs are computed once: rank 0 has decided for all."""

    def to_wire(self) -> Message:
        """Build the message."""
        return asdict(self)

    @classmethod
    def from_wire(cls, message: Message) -> StartMessage:
        """Parse the message of a rank 0 that runs the same launcher.

        >>> start = StartMessage(attempt=2, outputs=(("/w/models/m", "d"),), resume="checkpoint-5")
        >>> StartMessage.from_wire(start.to_wire()) == start
        True
        """
        asked = message["preflight"]
        parsed = {
            "outputs": tuple((path, digest) for path, digest in message["outputs"]),
            "preflight": None if asked is None else PreflightQuestion(**asked),
        }
        return cls(**message | parsed)


@dataclass(frozen=True, kw_only=True)
class PeerLoss:
    """A peer that ended before the run did."""

    who: str
    cause: str
    code: int = Exit.PEER
    """The peer's exit code, if it was able to send it."""

    def error(self) -> LaunchError:
        """Return the error of the ranks that end because of the loss: never a user code.

        After a peer that was preempted or terminated they end as it does, so that the restart
        is free, whichever pod's exit code Kubernetes sees first.
        """
        code = Exit.TERMINATED if self.code in FREE else Exit.PEER
        return LaunchError(
            code, f"{self.who} ended: {self.cause}", f"check the log of {self.who}", id="peer-ended"
        )

    def to_wire(self) -> Message:
        """Build the message by which rank 0 passes the loss on."""
        return {"lost": self.who, "cause": self.cause, "code": int(self.code)}

    @classmethod
    def from_wire(cls, message: Message, sender: str) -> PeerLoss | None:
        """Parse a rank's end with an error, or a loss passed on; None for any other message.

        A rank ends with PREEMPTED only when all ranks have saved and stopped, so nothing is lost.

        >>> PeerLoss.from_wire({"left": 78, "cause": "bad flag"}, "rank 1")
        PeerLoss(who='rank 1', cause='bad flag', code=78)
        >>> PeerLoss.from_wire({"left": 0, "cause": ""}, "rank 1") is None
        True
        """
        cause = str(message.get("cause", "unknown"))
        if "lost" in message:
            code = int(message.get("code", Exit.PEER))
            return cls(who=str(message["lost"]), cause=cause, code=code)
        if message.get("left", int(Exit.OK)) not in (int(Exit.OK), int(Exit.PREEMPTED)):
            return cls(who=sender, cause=cause, code=int(message["left"]))
        return None


def end_message(code: Exit, cause: str) -> Message:
    """Build the last message of a rank: its exit code and cause."""
    return {"left": int(code), "cause": cause}
