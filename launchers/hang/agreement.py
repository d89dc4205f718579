"""Agreement of all ranks that the gang hangs, and on the rank that ends with it.

A process that waits for a slow one gives no heartbeat either, so one silent node is not a hang: all
must be silent (``hang/silence.py``). Then every launcher gathers the evidence of its processes, and
rank 0 decides. The messages:

    {"hang": "silent", "seconds": …, "limit": …, "phase": …}   each rank to rank 0, every second
    {"hang": "beats"}                      its processes have given a heartbeat after all
    {"hang": "gather"}                     rank 0 to all
    {"hang": "evidence", "workers": […]}   each rank to rank 0, see ``hang/worker.py``
    {"hang": "end", "node": …, "cause": …, "kind": …}
                                           rank 0 to all: that node ends because of a culprit of
                                           this kind, with the exit code HANG or INCOMPLETE
    {"hang": "over"}                       rank 0 to all: a heartbeat came, nothing ends

A launcher that does not answer in time is itself the culprit. If a process gives a heartbeat while
the evidence is gathered, nothing ends. A rank that has left the gang counts no longer; after rank 0
has left, each node decides for itself.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from launchers import logs
from launchers.gang.agreement import Agreement
from launchers.gang.protocol import Message
from launchers.hang import culprit
from launchers.hang.culprit import Culprit
from launchers.hang.record import sentence
from launchers.hang.silence import Silence
from launchers.hang.worker import Worker
from launchers.system.threads import place_of

ANSWER_SECONDS = 25.0
"""Time in which all launchers gather their evidence (``hang/evidence.py``)."""

DECISION_SECONDS = ANSWER_SECONDS + 5.0
"""Time in which rank 0 decides after it has asked for the evidence."""

Record = Callable[[Silence, Sequence[Worker], Culprit], None]


def common(silent: Mapping[int, Silence], nodes: int) -> Silence | None:
    """Return the silence of the gang: that of the node with the latest heartbeat; None if it beats.

    >>> one, two = (Silence(seconds=s, limit=60, phase="step") for s in (61.0, 70.0))
    >>> common({0: one, 1: two}, 2) == one, common({0: one}, 2)
    (True, None)
    """
    counted = [each for each in silent.values() if each.seconds > 0]
    if len(silent) < nodes or not counted:
        return None
    return min(counted, key=lambda each: each.seconds)


class HangAgreement(Agreement):
    """One rank's part in the agreement on a hang."""

    def __init__(self, nodes: int, send: Callable[[Message], None], *, rank: int = 0) -> None:
        """Prepare for a hang; arguments as of ``Agreement``, with this rank's number."""
        super().__init__(nodes, send, is_leader=rank == 0)
        self._rank, self._present = rank, set(range(nodes))
        self._lock = threading.RLock()
        self._gather: Callable[[], list[Worker]] = list
        self._record: Record = lambda silence, workers, found: None
        self._end: Callable[[int, str, str], None] = lambda node, cause, kind: None
        self._silent: dict[int, Silence] = {}
        self._hang: Silence | None = None
        self._deadline = 0.0
        self._evidence: dict[int, list[Worker]] = {}
        self._is_decided = False
        self._settled = threading.Event()
        self._settled.set()

    def attach(
        self,
        gather: Callable[[], list[Worker]],
        record: Record,
        end: Callable[[int, str, str], None],
    ) -> None:
        """Connect this node's training processes; what an earlier attempt has noted is forgotten.

        ``gather`` answers within ``ANSWER_SECONDS``; ``end`` gets node, cause and culprit's kind.
        """
        with self._lock:
            self._gather, self._record, self._end = gather, record, end
            self._silent, self._hang, self._is_decided = {}, None, False
            self._settled.set()

    def leave(self, rank: int) -> None:
        """Note that a rank has left the gang without an error."""
        with self._lock:
            self._silent.pop(rank, None)
            if not self._is_leader:  # rank 0, the only one that a member hears of
                self._is_leader, self._present, self._silent = True, {self._rank}, {}
                self._settled.set()
            else:
                self._present.discard(rank)

    def await_decision(self) -> None:
        """Wait, while rank 0 decides on a hang, until this node's processes are ended or continue.

        The processes of a node may end in between, because those of the other nodes were ended
        first; the hang is the cause all the same. Returns after ``DECISION_SECONDS`` at the latest.
        """
        self._settled.wait(DECISION_SECONDS)

    def note(self, silence: Silence | None) -> None:
        """Note whether this node is silent; called about every second."""
        if not self._is_leader:
            message = (
                {"hang": "beats"} if silence is None else {"hang": "silent", **asdict(silence)}
            )
            if silence is not None or self._silent:
                self._send(message)
            self._silent = {} if silence is None else {0: silence}
            return
        self._set(self._rank, silence)
        with self._lock:
            is_late = self._hang is not None and time.monotonic() >= self._deadline
        if is_late:
            self._decide()

    def hear(self, rank: int, message: Message) -> None:
        """Handle a peer's message; others than those above are ignored."""
        word = message.get("hang")
        if word == "silent" and self._is_leader:
            fields = {name: message[name] for name in ("seconds", "limit", "phase")}
            self._set(rank, Silence(**fields))
        elif word == "beats" and self._is_leader:
            self._set(rank, None)
        elif word == "evidence" and self._is_leader:
            self._add(rank, [Worker.from_wire(each) for each in message["workers"]])
        elif word == "gather" and not self._is_leader:
            self._settled.clear()
            _start(self._answer)
        elif word == "end" and not self._is_leader:
            self._end(int(message["node"]), str(message["cause"]), str(message["kind"]))
            self._settled.set()
        elif word == "over" and not self._is_leader:
            self._settled.set()

    def _set(self, rank: int, silence: Silence | None) -> None:
        """Note on rank 0 whether a node is silent; begin once all are."""
        with self._lock:
            if silence is None:
                self._silent.pop(rank, None)
            else:
                self._silent[rank] = silence
            hang = common(self._silent, len(self._present))
            if hang is None or self._hang is not None or self._is_decided:
                return
            self._hang, self._deadline = hang, time.monotonic() + ANSWER_SECONDS
            self._evidence = {}
            self._settled.clear()
        logs.warning("no rank gives a heartbeat", **asdict(hang))
        self._send({"hang": "gather"})
        _start(lambda: self._add(self._rank, self._gathered()))

    def _answer(self) -> None:
        self._send({"hang": "evidence", "workers": [each.to_wire() for each in self._gathered()]})

    def _gathered(self) -> list[Worker]:
        """Return this node's evidence; none if that fails: the gang must end all the same."""
        try:
            return self._gather()
        except Exception as error:
            logs.warning("no evidence of a hang", cause=repr(error), at=place_of(error))
            return []

    def _add(self, rank: int, workers: list[Worker]) -> None:
        with self._lock:
            self._evidence[rank] = workers
            is_whole = self._evidence.keys() >= self._present
        if is_whole:
            self._decide()

    def _decide(self) -> None:
        """Name the culprit and end the gang, once; unless a process has given a heartbeat."""
        with self._lock:
            hang, self._hang = self._hang, None
            if hang is None:
                return
            is_hang = self._is_decided = common(self._silent, len(self._present)) is not None
            workers = [each for node in sorted(self._evidence) for each in self._evidence[node]]
            mute = sorted(self._present - self._evidence.keys())
        if not is_hang:
            logs.warning("the ranks give heartbeats again", after=hang.seconds)
            self._send({"hang": "over"})
            self._settled.set()
            return
        found = _judged(workers, mute)
        cause = sentence(hang, found)
        try:
            self._record(hang, workers, found)
        except Exception as error:
            logs.warning("hang not recorded", cause=repr(error), at=place_of(error))
        node = self._rank if found.node is None or found.node in mute else found.node
        self._send({"hang": "end", "node": node, "cause": cause, "kind": found.kind})
        self._end(node, cause, found.kind)
        self._settled.set()


def _judged(workers: Sequence[Worker], mute: Sequence[int]) -> Culprit:
    """Return the culprit; unknown if an error keeps it from being found."""
    try:
        return culprit.find(workers, mute)
    except Exception as error:
        why = f"the evidence was not judged: {error!r} ({place_of(error)})"
        return Culprit(kind=culprit.UNKNOWN, ranks=(), node=None, why=why)


def _start(act: Callable[[], None]) -> None:
    """Act in a thread: gathering takes seconds, and the caller reads the peers' messages."""
    threading.Thread(target=act, name="hang", daemon=True).start()
