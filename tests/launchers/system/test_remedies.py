"""Remedies name kubectl and keys of the chart in its pods only, variables and ports on hosts."""

import time
from collections.abc import Callable

import pytest

from launchers.exits import LaunchError
from launchers.gang import barrier
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Hello
from launchers.preflight.gang_checks import Answer, reached
from launchers.preflight.gang_probes import free_port


def hello(rank: int) -> Hello:
    return Hello(run="r", rank=rank, nodes=2, processes=1, digest="d", pod="", node="")


def without_rank_0() -> str:
    with pytest.raises(LaunchError) as lost:
        Member(hello(1), "127.0.0.1", free_port(), time.monotonic())
    return lost.value.remedy


def port_in_use() -> str:
    port = free_port()
    first = Leader(hello(0), port)
    with pytest.raises(LaunchError) as no:
        Leader(hello(0), port)
    first.give_up(no.value)
    return no.value.remedy


ANSWER = Answer(name="1", sent=0, heard=0, said=0, got=0, nonce="", port="", gpu_model="")
ERRORS: list[tuple[Callable[[], str], str, str]] = [
    (without_rank_0, "kubectl", "29511 (MASTER_PORT)"),
    (port_in_use, "rendezvous.gangPort", "DPO_GANG_PORT"),
    (lambda: barrier.incomplete(2, [], []).remedy, "kubectl", "DPO_GANG_DEADLINE"),
    (lambda: reached([ANSWER], "nonce")[0].remedy, "rendezvous.masterPort", "MASTER_PORT"),
]


@pytest.mark.parametrize(("remedy", "in_jobset", "on_host"), ERRORS)
def test_a_remedy_is_in_the_words_of_the_place(
    monkeypatch: pytest.MonkeyPatch, remedy: Callable[[], str], in_jobset: str, on_host: str
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29511")
    assert on_host in (said := remedy()) and in_jobset not in said
    for name in ("DPO_NODES", "JOB_COMPLETION_INDEX"):
        monkeypatch.setenv(name, "1")
    assert in_jobset in (said := remedy()) and on_host not in said
