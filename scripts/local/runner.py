"""Runs a rendered JobSet on this machine, with the restarts that its failure policy grants."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from launchers.process import adopt_orphans
from scripts.local import failure_policy
from scripts.local.attempt import run_attempt
from scripts.local.display import View
from scripts.local.schedule import Machine, plan
from scripts.local.signals import stopping
from scripts.manifest import JobSet
from scripts.problem import Problem

TAIL = 15
"""Lines of a failed pod's log that are shown."""


def run(jobset: JobSet, machine: Machine, view: View) -> int:
    """Runs the JobSet to its end; no process is left.

    Returns:
        0, the exit code of the pod that failed the JobSet, or 128 + the signal that stopped it.
    """
    adopt_orphans()  # what a killed launcher leaves behind comes to us, so that we can end it
    shutil.rmtree(machine.folder, ignore_errors=True)
    restarts = counted = 0
    with stopping() as stop:
        while True:
            with tempfile.TemporaryDirectory(prefix="dpo-", ignore_cleanup_errors=True) as scratch:
                waves = plan(jobset, machine, restarts, Path(scratch))
                view.begin([start.pod.name for wave in waves for start in wave])
                outcome = run_attempt(waves, view, stop)
            if outcome.stopped or stop.count:
                return stop.exit_code
            if outcome.failed is None:
                return 0
            failure = failure_policy.job_failure(outcome.failed, outcome.code)
            again, counted = failure_policy.restarts(jobset, failure, counted)
            _explain(machine.folder / str(restarts) / outcome.failed.name, view)
            if not again:
                view.note(f"JobSet {jobset.name} failed: {failure.message}")
                return outcome.code
            restarts += 1
            view.note(f"JobSet {jobset.name} restarts ({counted} of {jobset.max_restarts} counted)")


def _explain(folder: Path, view: View) -> None:
    """The end of a failed pod's log, and where the rest is."""
    log = folder / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    for line in lines[-TAIL:]:
        view.note(f"  {line}")
    view.note(f"the whole log: {log}")


def training_python(root: Path, given: str | None = None) -> Path:
    """The Python given, else the checkout's training environment, else python3 (a GPU host).

    Raises:
        Problem: the given one does not exist.
    """
    if given:
        found = shutil.which(given)
        if found is None:
            raise Problem(f"--python {given} is no program; write the path of an interpreter")
        return Path(found).absolute()  # unresolved: a venv's python is a link that means the venv
    own = root / ".tools" / "train" / "bin" / "python"
    return own if own.exists() else Path(shutil.which("python3") or sys.executable)
