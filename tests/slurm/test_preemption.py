"""``scripts/slurm/dpo.sbatch`` on a real Slurm: preempted, requeued, completed (`make slurm`)."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launchers.metrics import reader
from launchers.metrics.rows import Row
from scripts.helm import ROOT
from tests.launchers.run.trained import STEPS, Trained, short_sources
from tests.launchers.training_environment import PYTHON
from tests.slurm import cluster
from tests.slurm.cluster import Slurm

SECONDS = 300.0
SAVES = """#!/bin/bash
trap 'exit 75' TERM
echo begun
while :; do sleep 0.1; done
"""
"""Stands for a launcher that has saved."""
POD = (
    *("DPO_NODES", "DPO_COMPLETIONS", "DPO_JOB_INDEX", "JOB_COMPLETION_INDEX", "DPO_MASTER_ADDR"),
    *("DPO_POD_NAME", "DPO_TERMINATION_LOG"),
)
"""Variables of a pod, which a task of Slurm does not have."""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    lacks = cluster.missing()
    if lacks:
        pytest.fail(
            f"missing: {', '.join(lacks)}; install slurmctld, slurmd, slurm-client, util-linux and "
            "iproute2, or unpack Slurm's packages and set SLURM_ROOT; run as root",
            pytrace=False,
        )
    with cluster.running(tmp_path / "slurm") as made:
        yield made


def wait_for(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    stop = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < stop, what()
        time.sleep(0.5)


def submit(slurm: Slurm, output: Path, **env: str) -> str:
    script = str(ROOT / "scripts" / "slurm" / "dpo.sbatch")
    options = ("--parsable", "--nodes=2", f"--output={output}", f"--chdir={ROOT}")
    return slurm.call("sbatch", *options, script, **env).strip()


def test_a_preempted_run_is_requeued_and_loses_no_step(tmp_path: Path, slurm: Slurm) -> None:
    pods = Trained(tmp_path, given=short_sources(tmp_path / "own"), slow={"STEP": 0.5})
    env = {name: value for name, value in pods.env(0).items() if name not in POD}
    env |= {"DPO_GANG_DEADLINE": "120", "DPO_GPUS_PER_NODE": "0", "PATH": slurm.env["PATH"]}
    env |= {"PYTHON": str(PYTHON), "PYTHON_EXEC": str(PYTHON)}
    output = tmp_path / "job.log"
    job = submit(slurm, output, **env)

    def said() -> str:
        return output.read_text(errors="replace")[-4000:] if output.exists() else "no output"

    wait_for(lambda: any(step >= 4 for step, _ in pods.losses()), said)
    options = ("--parsable", "--partition=high", "--nodes=2", "--output=/dev/null")
    other = slurm.call("sbatch", *options, "--wrap=srun sleep 3").strip()
    wait_for(lambda: slurm.state(other) == "COMPLETED", said)
    wait_for(lambda: slurm.state(job) == "PENDING", said)
    assert "id=preempted" in output.read_text()
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits two minutes
    wait_for(lambda: slurm.state(job) == "COMPLETED", said)

    assert [step for step, _ in pods.losses()] == list(range(1, STEPS + 1))
    rows = reader.read(pods.run / "metrics.jsonl", Row)
    assert [row.step for row in rows] == list(range(1, STEPS + 1))
    assert {row.attempt for row in rows} == {1, 2}
    assert (pods.run / "export" / "model.safetensors").exists()


def test_a_cancelled_run_is_not_requeued(tmp_path: Path, slurm: Slurm) -> None:
    (tmp_path / "saves").write_text(SAVES)
    (tmp_path / "saves").chmod(0o755)
    output = tmp_path / "job.log"
    job = submit(slurm, output, PYTHON=str(tmp_path / "saves"), DPO_RUN="r")
    wait_for(lambda: output.exists() and output.read_text().count("begun") == 2, output.read_text)
    slurm.call("scancel", job)
    wait_for(lambda: slurm.state(job) == "CANCELLED", lambda: slurm.state(job))
    assert "ended with 75" in output.read_text()
