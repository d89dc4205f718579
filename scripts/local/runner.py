"""Run a rendered JobSet on this machine, with the restarts that its failure policy allows."""

import shutil
import sys
import tempfile
from pathlib import Path

from launchers.system.process import adopt_orphans
from scripts.local import failure_policy
from scripts.local.attempt import run_attempt
from scripts.local.display import Display
from scripts.local.schedule import Machine, schedule_attempt
from scripts.local.signals import stopping
from scripts.manifest import JobSet
from scripts.problem import Problem

TAIL_LINES = 15
"""Lines of a failed pod's log that are shown."""


def run(jobset: JobSet, machine: Machine, display: Display) -> int:
    """Run the JobSet to its end; no process is left running.

    Returns:
        0, the exit code of the pod that failed the JobSet, or 128 + the signal that stopped it.
    """
    adopt_orphans()  # so that children of a killed launcher can be ended here
    shutil.rmtree(machine.folder, ignore_errors=True)
    restarts = counted = 0
    with stopping() as stop:
        while True:
            with tempfile.TemporaryDirectory(prefix="dpo-", ignore_cleanup_errors=True) as scratch:
                waves = schedule_attempt(jobset, machine, restarts, Path(scratch))
                outcome = run_attempt(waves, display, stop)
            if outcome.stopped or stop.count:
                return stop.exit_code
            if outcome.failed is None:
                return 0
            failure = failure_policy.job_failure(outcome.failed, outcome.code)
            again, counted = failure_policy.restarts(jobset, failure, counted)
            _explain(machine.folder / str(restarts) / outcome.failed.name, display)
            if not again:
                display.note(f"JobSet {jobset.name} failed: {failure.message}")
                return outcome.code
            restarts += 1
            display.note(
                f"JobSet {jobset.name} restarts ({counted} of {jobset.max_restarts} counted)"
            )


def _explain(folder: Path, display: Display) -> None:
    """Show the last lines of a failed pod's log, and its path."""
    log = folder / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    for line in lines[-TAIL_LINES:]:
        display.note(f"  {line}")
    display.note(f"the whole log: {log}")


def training_python(root: Path, given: str | None = None) -> Path:
    """Return the given Python, or the checkout's training environment, or python3 (a GPU host).

    Raises:
        Problem: the given one does not exist.
    """
    if given:
        found = shutil.which(given)
        if found is None:
            raise Problem(f"--python {given} is not a program; give the path of an interpreter")
        return Path(found).absolute()  # not resolved: the link in a venv selects the venv
    own = root / ".tools" / "train" / "bin" / "python"
    return own if own.exists() else Path(shutil.which("python3") or sys.executable)
