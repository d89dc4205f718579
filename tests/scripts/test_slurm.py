"""``scripts/slurm/dpo.sbatch`` without Slurm: which exit codes it requeues (`make slurm`: with)."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from launchers.exits import USER, Exit
from scripts.helm import ROOT

SCRIPT = ROOT / "scripts" / "slurm" / "dpo.sbatch"
AWAY = '[ -e "$0.asked" ] || { touch "$0.asked"; exit 1; }'
"""Of a client of Slurm whose first question slurmctld does not answer."""
FAKES = {
    "srun": 'echo "$DPO_GRACE_SECONDS $*" >"$CALLS/srun"; exit $CODE',
    "squeue": f"{AWAY}; echo $STATE",
    "scontrol": f'{AWAY}; echo "$*" >"$CALLS/scontrol"',
    "sleep": "",
}


@pytest.mark.parametrize(
    ("state", "restarts"), [("RUNNING", "0"), ("RUNNING", "20"), ("COMPLETING", "0")]
)
@pytest.mark.parametrize("code", [*Exit, 137], ids=str)
def test_it_requeues_all_but_success_user_errors_faults_that_stay_and_cancelled_jobs(
    tmp_path: Path, code: int, state: str, restarts: str
) -> None:
    (calls := tmp_path / "calls").mkdir()
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), "CODE": str(code)}
    env |= {"SLURM_JOB_ID": "7", "DPO_RUN": "r", "STATE": state, "SLURM_CPUS_ON_NODE": "96"}
    env |= {"SLURM_RESTART_COUNT": restarts}
    done = subprocess.run(["bash", str(SCRIPT)], env=env, capture_output=True, text=True)
    assert done.returncode == code
    called = (calls / "srun").read_text()
    assert called == "60 --cpus-per-task=96 --kill-on-bad-exit=0 python3 -m launchers run\n"
    ends = state != "RUNNING" or code in (Exit.OK, *USER)
    ends = ends or (restarts == "20" and code != Exit.PREEMPTED)  # a fault that stays
    requeued = calls / "scontrol"
    assert (requeued.read_text() if requeued.exists() else "") == ("" if ends else "requeue 7\n")


def test_it_is_short() -> None:
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= 20


@pytest.mark.parametrize("page", ["HOSTS.md", "HOSTS.zh.md"])
def test_the_page_about_hosts_lists_the_codes_that_are_not_repeated(page: str) -> None:
    text = (ROOT / "launchers" / page).read_text(encoding="utf-8")
    [listed] = re.findall(r"\b0(?:\D{1,6}\d{2}\b){5,}", text)
    assert {int(code) for code in re.findall(r"\d+", listed)} == {0, *USER}
