import errno
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launchers.config.recipe import Recipe
from launchers.exits import Exit, FailureClass
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import PeerLoss
from launchers.stages.attempt import Attempt
from launchers.stages.train import SIGNLESS_SECONDS, _failure, _is_exportable
from launchers.storage.checkpoint import Checkpoint, seal
from launchers.system import training_end


def logs(folder: Path, *texts: str) -> Path:
    for rank, text in enumerate(texts):
        log = folder / "node-0" / "none_x" / "attempt_0" / str(rank) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
    return folder / "node-0"


TABLE = """
Failures:
[1]:
  exitcode  : -15 (pid: 7)
[2]:
  exitcode  : -9 (pid: 8)
------
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : {} (pid: 9)
"""


def agent(ranks: Path, root: int) -> None:
    ranks.with_suffix(".log").write_text(TABLE.format(root))


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that waits for a peer's cause."""

    def wait(peers: object, seconds: float) -> bool:
        raise AssertionError(seconds)

    monkeypatch.setattr("threading.Event.wait", wait)


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize(
    ("code", "oom_kills", "id"),
    [
        *((1, 1, "killed-for-memory"), (1, 0, "killed-by-other"), (1, None, "killed")),
        *((-9, 1, "killed-for-memory"), (-9, 0, "killed-by-other"), (-11, None, "ended-by-signal")),
    ],
)
def test_a_killed_worker_or_torchrun_is_classified_and_waits_for_no_culprit(
    tmp_path: Path, code: int, oom_kills: int | None, id: str
) -> None:
    ranks = logs(tmp_path, "")
    if code == 1:  # torchrun reports that its worker was killed
        agent(ranks, -9)
    error = _failure(ranks, PeerMonitor(), started=True, oom_kills=oom_kills, code=code)
    assert (error.code, error.id) == (Exit.PEER, id)
    assert (error.failure_class == FailureClass.HOST_MEMORY) == (id == "killed-for-memory")


NCCL = "RuntimeError: NCCL error\n"
ABORTED = "torch.distributed.DistBackendError: NCCL communicator was aborted\n"
LAUNCH = "RuntimeError: CUDA error: unspecified launch failure\n"
DRAINED = PeerLoss(who="rank 1", cause="node drained", code=Exit.TERMINATED)
CAUGHT = "KeyError: 'messages'\n"


@pytest.mark.parametrize(
    ("texts", "root", "loss", "code", "cause"),
    [
        ([NCCL, "ValueError: bad layout\n"], 0, None, Exit.CONFIG, "ValueError: bad layout"),
        ([CAUGHT], -9, None, Exit.PEER, "a training process was killed by SIGKILL"),
        (["ValueError: heads\n", ""], 1, None, Exit.CONFIG, "ValueError: heads"),
        # a user error wins over a peer that ended because of it, an unknown one gives way
        (["ValueError: heads\n"], 0, DRAINED, Exit.CONFIG, "ValueError: heads"),
        ([LAUNCH], 0, DRAINED, Exit.TERMINATED, "rank 1 ended: node drained"),
    ],
)
def test_the_cause_is_that_of_the_rank_that_ended_first(
    tmp_path: Path, texts: list[str], root: int, loss: PeerLoss | None, code: Exit, cause: str
) -> None:
    ranks, peers = logs(tmp_path, *texts), PeerMonitor()
    if root:
        agent(ranks, root)
    if loss is not None:
        peers.record_loss(loss)
    error = _failure(ranks, peers, started=code == Exit.TERMINATED, code=1)
    assert (error.code, error.cause) == (code, cause)


@pytest.mark.parametrize(("text", "root"), [(NCCL, None), (ABORTED, -6)])
def test_a_cascade_waits_for_the_culprits_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, root: int | None
) -> None:
    monkeypatch.setattr("launchers.stages.train.LOSS_REPORT_TIMEOUT_SECONDS", 5.0)
    ranks, peers = logs(tmp_path, text), PeerMonitor()
    if root is not None:  # by NCCL's watchdog
        agent(ranks, root)
    threading.Timer(0.2, peers.record_loss, (PeerLoss(who="rank 3", cause="out of disk"),)).start()
    error = _failure(ranks, peers, started=True, code=1)
    assert (error.code, error.cause) == (Exit.PEER, "rank 3 ended: out of disk")


ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
UNSAID = 'Traceback (most recent call last):\n  File "/a", line 1, in f\n    g()\nStopIteration\n'


@pytest.mark.parametrize(
    ("texts", "code", "place"),
    [
        (["no exception"], Exit.PEER, "node-0"),
        ([NCCL, ECC], Exit.PREFLIGHT, "node-0/none_x/attempt_0/1/stderr.log"),
        ([NCCL, UNSAID], Exit.PEER, "node-0/none_x/attempt_0/1/stderr.log"),
    ],
)
def test_an_end_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], code: Exit, place: str
) -> None:
    monkeypatch.setattr("launchers.stages.train.SIGNLESS_SECONDS", 0.01)
    error = _failure(logs(tmp_path, *texts), PeerMonitor(), started=True, code=1)
    assert error.code == code and error.remedy.endswith(str(tmp_path / place))


def test_an_end_without_a_sign_of_a_peer_is_reported_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []

    def wait(peers: object, seconds: float | None = None) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr("threading.Event.wait", wait)
    _failure(logs(tmp_path, ""), PeerMonitor(), started=True, code=1)
    assert waited == [SIGNLESS_SECONDS]
    assert SIGNLESS_SECONDS < 5


def test_a_torchrun_that_lost_its_peers_itself_waits_for_the_culprits_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchers.stages.train.SIGNLESS_SECONDS", 0.01)
    ranks = logs(tmp_path, "")
    ranks.with_suffix(".log").write_text(
        "[default0]:RuntimeError: caught\n"
        "torch.distributed.DistNetworkError: Connection reset by peer\n"
    )
    peers = PeerMonitor()
    lost = PeerLoss(who="rank 3", cause="out of disk")
    threading.Timer(0.5, peers.record_loss, (lost,)).start()
    assert _failure(ranks, peers, started=True, code=1).cause == "rank 3 ended: out of disk"


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize("is_away", [True, False])
def test_a_workspace_that_does_not_answer_is_no_error_of_the_user(
    is_away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(log: Path) -> str:
        if log.parent.name == "1":
            raise OSError(errno.ESTALE, "Stale file handle")
        return log.read_text()

    monkeypatch.setattr(training_end, "end_of", read)
    monkeypatch.setattr(training_end, "LOOKUP_SECONDS", 0.1)
    ranks = logs(tmp_path, "ValueError: wrong", "")
    error = _failure(ranks / "a" / "b" if is_away else ranks, PeerMonitor(), started=False, code=1)
    assert (error.code, error.failure_class) == (Exit.IO, FailureClass.STORAGE)
    assert error.id == ("workspace-away" if is_away else "storage-unknown")


@pytest.mark.parametrize(
    ("args", "files", "is_exportable"),
    [
        ({}, ["checkpoint-4/model.safetensors"], True),
        ({}, ["checkpoint-4/iter_4/a.distcp"], False),
        ({"save_safetensors": "true"}, ["checkpoint-4/iter_4/a.distcp"], True),  # it writes all
        ({"tuner_type": "lora"}, ["checkpoint-4/adapter.safetensors"], False),
        ({"tuner_type": "lora"}, ["checkpoint-4-merged/model.safetensors"], True),
    ],
)
def test_which_checkpoints_have_what_a_budget_exports(
    tmp_path: Path, args: dict[str, Any], files: list[str], is_exportable: bool
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("w")
        seal(tmp_path / Path(name).parts[0], 4)
    resume = Checkpoint(path=tmp_path / "checkpoint-4", step=4)
    recipe = Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",), args=args)
    launch: Any = SimpleNamespace(gpus_per_node=8)
    assert _is_exportable(launch, recipe, Attempt(number=2, resume=resume)) is is_exportable
