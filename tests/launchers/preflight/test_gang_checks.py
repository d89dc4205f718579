import socket
from dataclasses import replace

import pytest

from launchers.exits import Exit
from launchers.preflight.finding import failed, failure, ok, warning
from launchers.preflight.gang_checks import Answer, answer_of, judge_answers
from launchers.preflight.gang_probes import PortProbe, free_port, read_word

TIMES = {"sent": 100.0, "heard": 100.01, "said": 130.0, "got": 130.01}
GOOD = Answer(name="rank 1 (r-0-1 on b)", nonce="n", port="n", gpu_model="NVIDIA H200", **TIMES)


def states(*answers: Answer) -> dict[str, str]:
    return {finding.check: finding.state for finding in judge_answers(answers, "n", "NVIDIA H200")}


def test_a_sound_gang_passes() -> None:
    assert states(GOOD) == {"clock": "ok", "workspace": "ok", "port": "ok"}


def test_an_answer_travels_with_ready() -> None:
    reported = {"nonce": "n", "port": "n", "card": "c"}
    times = {"sent": 1.0, "heard": 2, "said": 3.0, "got": 4.0}
    assert answer_of({"ready": "p", "name": "rank 1", "preflight": reported, **times}).said == 3.0
    with pytest.raises(KeyError):
        answer_of({"ready": "p", "name": "rank 1", **times})


@pytest.mark.parametrize(("ahead", "state"), [(0.5, "ok"), (-5, "warning"), (61, "failed")])
def test_clocks_are_compared_however_long_the_answer_takes(ahead: float, state: str) -> None:
    other = replace(GOOD, heard=GOOD.heard + ahead, said=GOOD.said + ahead)
    assert states(other)["clock"] == state
    assert other.skew == pytest.approx(ahead, abs=0.001)


def test_a_workspace_of_its_own_is_the_users_mistake() -> None:
    other = replace(GOOD, nonce="[Errno 2] No such file", name="rank 2 (p on c)")
    [found] = [f for f in judge_answers([GOOD, other], "n", "") if f.check == "workspace"]
    assert (found.state, found.code, found.who) == ("failed", Exit.CONFIG, "rank 2 (p on c)")


def test_a_rank_that_cannot_reach_the_master_port_is_named() -> None:
    other = replace(GOOD, port="timed out")
    [found] = [f for f in judge_answers([other], "n", "") if f.check == "port"]
    assert (found.state, found.code) == ("failed", Exit.PREFLIGHT)
    assert "timed out" in found.seen


def test_different_gpu_models_in_a_gang_are_a_warning() -> None:
    assert states(replace(GOOD, gpu_model="NVIDIA H100 80GB HBM3"))["cards"] == "warning"


def test_the_listener_answers_its_nonce_and_leaves_the_port_free() -> None:
    port = free_port()
    with PortProbe(port, "word", 3):
        assert [read_word("127.0.0.1", port) for _ in range(3)] == ["word"] * 3
        with pytest.raises(OSError):
            PortProbe(port, "other", 1)
    with socket.socket() as sock:  # as torchrun's store binds, without waiting
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", port))
    with pytest.raises(OSError):
        read_word("127.0.0.1", port)


def test_all_failures_are_reported_and_a_user_error_decides_the_code() -> None:
    bad = failed("health", "2 memory errors", "replace it", who="GPU 1")
    mine = failed("shm", "64 MiB", "raise sharedMemory.sizeLimit", code=Exit.CONFIG)
    error = failure([ok("disk", ""), warning("caches", "", ""), bad, mine], "rank 3 (p on n)")
    assert error is not None and error.code == Exit.CONFIG
    assert error.cause == "rank 3 (p on n): shm: 64 MiB | health: GPU 1: 2 memory errors"
    assert error.remedy == "raise sharedMemory.sizeLimit"
    assert failure([ok("disk", ""), warning("caches", "", "")], "rank 0") is None
    assert failure([bad], "rank 0").code == Exit.PREFLIGHT  # type: ignore[union-attr]
