"""Rank 0's side of the gang: takes peers in, starts them, passes on who was lost."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable

from launchers import logs
from launchers.exits import USER, Exit, LaunchError
from launchers.gang.barrier import SILENCE, Bond, Judge, Loss, farewell, listen, pulse, until
from launchers.gang.protocol import Closed, Hello, Line, Message, hello_of, server
from launchers.gang.roll_call import late, missing, refusal

LINGER = 3.0
"""Seconds that a failing rank 0 stays for peers that have not joined yet."""


class Leader:
    """Leads a gang; use it as a context manager."""

    def __init__(self, own: Hello, port: int) -> None:
        """Open the port on all addresses; with one node there is nobody to wait for."""
        self.own = own
        self.bond = Bond(tell=lambda code, cause: self.say(farewell(code, cause)))
        self.generation = ""
        self._lines: dict[int, Line] = {}
        self._hellos: dict[int, Hello] = {}
        self._change = threading.Condition()
        self._ready: dict[int, Message] = {}
        self._greeted: set[int] = set()
        self._left: set[int] = set()
        self._asked: dict[int, float] = {}
        self._stage = ""
        self._doom: Loss | None = None
        self._last: Message | None = None
        self._server: socket.socket | None = None
        if own.nodes > 1:
            self._open(port)

    def _open(self, port: int) -> None:
        try:
            self._server = server(port, backlog=self.own.nodes)
        except OSError as error:
            raise LaunchError(
                Exit.UNAVAILABLE,
                f"gang port {port} of rank 0: {error}",
                "free the port or set rendezvous.gangPort",
            ) from None
        threading.Thread(target=self._accept, name="gang-accept", daemon=True).start()
        pulse(self.bond, self._all_lines)

    def _all_lines(self) -> list[Line]:
        with self._change:
            return list(self._lines.values())

    def _accept(self) -> None:
        assert self._server is not None
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return  # closed: the run is over
            line = Line(sock, SILENCE)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: Line) -> None:
        """Take one peer in and read what it says until it ends."""
        try:
            peer = hello_of(line.receive())
        except Closed:
            peer = None
        if peer is None:
            line.close()
            return
        if not self._take_in(peer, line):
            return
        logs.info("gang joined", peer=peer.name, present=len(self._hellos) + 1, of=peer.nodes)
        try:
            line.send(self._last or {"stage": self._stage})
            self._note(self._greeted, peer.rank)
            answer = line.receive() | {"got": time.time(), "name": peer.name}
        except Closed as error:
            self._drop(peer, str(error))
            return
        if "ready" not in answer:
            self._give_up(peer, answer)
            return
        with self._change:
            self._ready[peer.rank] = answer | {"sent": self._asked.get(peer.rank, 0.0)}
            self._change.notify_all()
        listen(self.bond, line, peer.name, last=lambda: self._note(self._left, peer.rank))

    def _take_in(self, peer: Hello, line: Line) -> bool:
        with self._change:
            no = refusal(self.own, peer, self._hellos, generation=self.generation)
            if no is None:
                self._hellos[peer.rank] = peer
                self._lines[peer.rank] = line
                self._change.notify_all()
        if no is None:
            return True
        logs.warning("gang refused", peer=peer.name, cause=no[1])
        with contextlib.suppress(Closed):
            line.send({"refused": no[1], "code": int(no[0])})
        line.close()
        if self.generation and no[0] == Exit.PEER:
            self.bond.lose(Loss(who=peer.name, cause="its pod was replaced"))
        return False

    def _give_up(self, peer: Hello, answer: Message) -> None:
        """Drop a peer that left before the start; a user error of it is the gang's end."""
        cause = str(answer.get("cause", "unknown"))
        if answer.get("left") in USER:
            self._doom = Loss(who=peer.name, cause=cause)
        self._drop(peer, cause)

    def _drop(self, peer: Hello, cause: str) -> None:
        """Forget a peer that ended before the start, so that its successor may join."""
        logs.warning("gang dropped", peer=peer.name, cause=cause)
        with self._change:
            self._hellos.pop(peer.rank, None)
            self._lines.pop(peer.rank, None)
            self._ready.pop(peer.rank, None)
            self._asked.pop(peer.rank, None)
            if self.generation:
                self.bond.lose(Loss(who=peer.name, cause=cause))
            self._change.notify_all()

    def _note(self, ranks: set[int], rank: int) -> None:
        with self._change:
            ranks.add(rank)
            self._change.notify_all()

    def announce(self, stage: str) -> None:
        """Tell the peers which stage rank 0 is in; who joins later is told then."""
        self._stage = stage
        self.say({"stage": stage})

    def say(self, message: Message) -> None:
        """Tell every peer that has joined."""
        for line in self._all_lines():
            with contextlib.suppress(Closed):
                line.send(message)

    def start(self, prepared: Message, deadline: float, judge: Judge = lambda _: None) -> None:
        """Start the gang once every rank is present and sees what was prepared.

        Args:
            prepared: what the peers need to know; sent with the generation.
            deadline: monotonic time until which all ranks must have joined.
            judge: of the ranks' answers; if it raises, no rank starts.

        Raises:
            LaunchError: UNAVAILABLE naming the missing ranks, or PEER when one can't run at all.
        """
        with self._change:
            while len(self._ready) < self.own.nodes - 1:
                for rank in self._lines.keys() - self._asked:
                    self._asked[rank] = time.time()
                    with contextlib.suppress(Closed):  # its reader drops it
                        self._lines[rank].send({"prepared": prepared})
                if not self._change.wait(until(deadline)) and until(deadline) == 0:
                    raise late(self.own.nodes, self._hellos.keys(), self._ready.keys())
                if (loss := self._doom or self.bond.loss) is not None:
                    raise loss.error()
            judge([self._ready[rank] for rank in sorted(self._ready)])
            self.generation = secrets.token_hex(4)
        self.say({"go": self.generation})
        logs.info("gang started", generation=self.generation, nodes=self.own.nodes)

    def leave(self, code: Exit, cause: str, *, patience: float = 30.0) -> None:
        """Tell the peers how rank 0 ended.

        After success it waits until they have left too; after an error it lingers for those
        that are still on their way, who would else look for rank 0 until the deadline.
        """
        loss = self.bond.loss
        self.bond.end()
        with self._change:
            is_cascade = code in (Exit.PEER, Exit.TERMINATED)
            self._last = loss.message() if loss and is_cascade else farewell(code, cause)
        self.say(self._last)
        if code == Exit.OK:
            self._wait_until(lambda: self._left == self._ready.keys(), patience)
        elif code != Exit.TERMINATED:
            self._wait_until(lambda: not missing(self.own.nodes, self._greeted), LINGER)
        if self._server is not None:
            self._server.close()
        for line in self._all_lines():
            line.close()

    def _wait_until(self, holds: Callable[[], bool], seconds: float) -> None:
        stop = time.monotonic() + seconds
        with self._change:
            while not holds() and until(stop):
                self._change.wait(until(stop))
