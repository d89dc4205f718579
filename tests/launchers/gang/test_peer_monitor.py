"""An error in a thread of the gang ends the gang, or one connection, and never stays unnoticed."""

import threading
from collections import Counter

import pytest

from launchers.gang import peer_monitor
from launchers.gang.protocol import Connection, Message
from tests.launchers.gang.test_barrier import has_joined, led, loss_of, started
from tests.launchers.waiting import eventually


def fail(*_: object) -> None:
    raise KeyError("seconds")


@pytest.mark.parametrize("agreement", ["agreement", "hangs", "restarts"])
@pytest.mark.parametrize("on_leader", [True, False])
def test_a_message_that_cannot_be_handled_is_a_loss(
    monkeypatch: pytest.MonkeyPatch, agreement: str, on_leader: bool
) -> None:
    with led(nodes=2) as (lead, join):
        (one,) = started(lead, join, nodes=2)
        receiver, send = (lead, one._send) if on_leader else (one, lead._broadcast)
        monkeypatch.setattr(getattr(receiver.peers, agreement), "hear", fail)
        send({"hang": "silent"})
        assert "KeyError" in loss_of(receiver).cause


def test_a_first_message_that_cannot_be_handled_drops_the_peer() -> None:
    with led(nodes=2) as (lead, join):
        one = join(1)
        assert has_joined(lead)
        one._send({"left": [], "cause": "a list is no exit code"})
        assert eventually(lambda: 1 not in lead._hellos)
        join(1)  # its successor may join
        assert has_joined(lead)


def test_a_hello_that_cannot_be_handled_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with led(nodes=2) as (lead, join):
        assert lead._handshakes is not None
        introduce = lead._handshakes._introduce
        monkeypatch.setattr(lead._handshakes, "_introduce", fail)
        broken = threading.Thread(target=join, args=(1,), daemon=True)
        broken.start()
        assert eventually(lambda: lead._refused._lines > 0)
        monkeypatch.setattr(lead._handshakes, "_introduce", introduce)
        assert has_joined(lead)  # it connects again
        broken.join(5)  # only a member that has joined leaves


def test_keepalives_are_sent_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_monitor, "KEEPALIVE_INTERVAL_SECONDS", 0.05)
    sent: Counter[int] = Counter()

    def send(_: Connection, message: Message) -> None:
        thread = threading.current_thread()
        if thread.name == "gang-keepalive":
            sent[thread.ident or 0] += 1
            if sent[thread.ident or 0] == 1:
                raise RuntimeError("once in each thread")

    with led(nodes=2) as (_, join):
        join(1)
        monkeypatch.setattr(Connection, "send", send)
        assert eventually(lambda: len(sent) == 2 and min(sent.values()) >= 3)
