"""Another gang's address, launcher or clock, and a workspace with errors: none is an own error."""

import json
import os
import signal
import time
from pathlib import Path

from launchers.exits import Exit
from launchers.storage import checkpoint, manifest
from launchers.system.process import descendants
from scripts.helm import ROOT
from tests.e2e import space as spaces
from tests.e2e import standin, storage_errors, volumes
from tests.e2e.chance import Chance
from tests.e2e.faults import pid_of
from tests.e2e.measured import measured
from tests.e2e.merge import merge
from tests.e2e.phases import SMALL
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.e2e.until import until
from tests.faults.case import state_of
from tests.faults.gang import TRAINER

PAUSE_SECONDS = 120.0
CLOCK_SECONDS = 45.0
"""Longer than a probe with three failures, and than two heartbeats of the run's lock."""
ALIVE = "tmp/dpo-alive"
ERROR_SECONDS = 30.0
PROGRAM = "torch/distributed/run.py"
SAVE = {"do": "slow", "at": "save", "step": 4, "rank": 0, "word": 5, "attempts": 1}
"""The fault of the trainer that saves: in its second save it waits, and writes after that."""


def address_of(run: Run, rank: int) -> str:
    """Return the address of a rank's pod."""
    name = f"{run.name}-node-0-{rank}-"
    found = [
        item
        for item in run.space.kubectl.items("pods")
        if item["metadata"]["name"].startswith(name)
    ]
    return str(found[0]["status"]["podIP"])


def test_a_stale_address_of_rank_0_is_looked_up_again_until_it_is_right(unqueued: Space) -> None:
    """The address of rank 0 has become that of another run's rank 0, which trains."""
    other_release, other = standin.release(unqueued, "other", SMALL, hold=True)
    other_release.install()
    before = other.training()
    alias = [{"ip": address_of(other, 0), "hostnames": ["dpo-node-0-0.dpo"]}]
    over = merge(SMALL, {"hostAliases": alias})
    release, run = standin.release(unqueued, "dpo", over, hold=True)
    release.install()
    pods = {pod.rank: pod for pod in run.running(2)}
    until(
        "rank 1 has met the other run",
        lambda: "stale address of rank 0" in run.log(pods[1].name),
        seconds=60,
    )
    time.sleep(10)
    with measured("a stale address of rank 0 corrected: to both ranks training"):
        hosts = Path(f"/proc/{pid_of(pods[1].name)}/root/etc/hosts")
        lines = hosts.read_text(encoding="utf-8").splitlines(keepends=True)
        hosts.write_text("".join(line for line in lines if "dpo-node-0-0.dpo\n" not in line))
        run.training()
    for each in (run, other):
        standin.order(each, "succeed")
        each.ended()
        assert each.restarts == (0, 0)
    assert [pod.uid for pod in other.pods()] == [pod.uid for pod in before]


def test_a_leader_that_was_paused_for_two_minutes_changes_nothing_of_its_successor(
    unqueued: Space, tmp_path: Path
) -> None:
    """Two clusters share the workspace: here two namespaces; the probe is that of the kubelet."""
    over = merge(SMALL, {"nodes": 1, "restarts": {"hang": {"enabled": False}}})
    release, run = standin.release(unqueued, "dpo", over, hold=True)
    release.install()
    await_training(run, 1)
    pid = pid_of(run.running(1)[0].name)
    paused, since = [pid, *descendants(pid)], time.monotonic()
    for each in paused:
        os.kill(each, signal.SIGSTOP)
    try:
        with spaces.opened(
            unqueued.cluster, unqueued.kubectl.at(""), "successor", "privileged", tmp_path
        ) as second:
            volumes.share(second, "training", unqueued)
            second.kubectl.apply([standin.config()])
            successor_release, successor = standin.release(second, "dpo", over, hold=True)
            with measured("a leader paused: helm install of another one to its training"):
                successor_release.install()
                await_training(run, 2)
            time.sleep(max(0.0, since + PAUSE_SECONDS - time.monotonic()))
            standin.order(run, "succeed", "2-0")
            successor.ended()
            left = state_of(run.home)
    finally:
        for each in reversed(paused):
            os.kill(each, signal.SIGCONT)
    with measured("a leader continued after its successor: to its restart for free"):
        until("the leader has ended", lambda: run.restarts == (1, 0), seconds=60)
    run.ended()
    assert run.restarts == (1, 0)
    assert state_of(run.home) == left


def await_training(run: Run, attempt: int) -> None:
    """Wait until the only rank of a run trains in an attempt."""
    folder = run.home / "attempts" / str(attempt)
    until(f"attempt {attempt} trains", lambda: any(folder.rglob("argv.json")), seconds=180)


def test_a_clock_that_is_set_by_a_minute_ends_no_pod(unqueued: Space, chance: Chance) -> None:
    """The pods' clock is set forward, then back; a late heartbeat is one to the probe's first look.

    The wall clock of this machine is not touched: Python's is, and the heartbeat that it writes.
    """
    text = (TRAINER / "sitecustomize.py").read_text(encoding="utf-8")
    over = merge(SMALL, standin.with_files(unqueued, {"sitecustomize.py": text}))
    over = merge(over, {"extraEnv": {"FAULT_CLOCK": "/workspace/clock"}})
    release, run = standin.release(unqueued, "dpo", over, hold=True)
    release.install()
    before = run.training()
    chance.wait()
    files = [Path(f"/proc/{pid_of(pod.name)}/root/{ALIVE}") for pod in before]
    for shift in (60, -60):
        (unqueued.workspace / "clock").write_text(str(shift))
        stop = time.monotonic() + CLOCK_SECONDS
        while time.monotonic() < stop:
            uptime = float(Path("/proc/uptime").read_text().split()[0])
            for file in files:
                file.write_text(f"{uptime - 60:.2f}\n")
            time.sleep(7)  # longer than from the probe's first look to its second
    standin.order(run, "succeed")
    run.ended()
    assert [pod.uid for pod in run.pods()] == [pod.uid for pod in before]
    assert run.restarts == (0, 0)


def test_a_workspace_that_returns_errors_in_a_save_for_30_s_loses_no_checkpoint(
    unqueued: Space,
) -> None:
    """All paths of rank 0's pod; the trainer is the one of the fault matrix, with our own seal."""
    own = ("tests/faults/syscalls.py", "tests/launchers/torchrun_arguments.py")
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in own}
    files[PROGRAM] = (TRAINER / PROGRAM).read_text(encoding="utf-8")
    env = {"FAULT_TRAIN": json.dumps(SAVE), "FAULT_SIGN": "/tmp/sign"}
    over = merge(SMALL, standin.with_files(unqueued, files))
    release, run = standin.release(unqueued, "dpo", merge(over, {"extraEnv": env}))
    release.install()
    leader = pid_of(run.running(2)[0].name)
    until("a save begins", Path("/proc", str(leader), "root", "tmp", "sign").exists, seconds=120)
    sealed = run.home / "checkpoints" / "checkpoint-2"
    before = manifest.digest_folder(sealed)
    with storage_errors.returned(leader, "/workspace", ERROR_SECONDS):
        code = until("rank 0 ends", lambda: run.pods()[0].code, seconds=ERROR_SECONDS)
        assert (code, manifest.digest_folder(sealed)) == (Exit.IO, before)
    with measured("a workspace that returned errors for 30 s: from the last one to the run's end"):
        run.ended(seconds=300)
    start = run.home / "attempts" / "2" / checkpoint.START
    assert json.loads(start.read_text(encoding="utf-8"))["resume"] == 2
    assert run.restarts == (1, 1)
