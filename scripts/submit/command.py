"""Submit a run: plan, doctor, `helm upgrade --install`, then follow it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from scripts.doctor import command as doctor
from scripts.doctor.findings import Level, Report
from scripts.doctor.findings import show as show_findings
from scripts.helm import CHART, find_helm
from scripts.observe.command import Exit, Target, notes, observe
from scripts.observe.view import View
from scripts.plan import command as planning
from scripts.problem import Problem
from scripts.submit.follow import Until, follow
from scripts.submit.webhook import QueueMessages

EXISTS = "release-exists"
"""Finding of the doctor that an upgrade may ignore: the chart refuses what it cannot change."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo submit`."""

    target: Target
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    dry_run: bool = False
    """Plan and check; change nothing."""
    until: Until = Until.SUBMITTED


def run(request: Request, console: Console) -> int:
    """Submit a run.

    Raises:
        Problem: the chart refuses the values, or Helm fails.
    """
    target = request.target
    if not request.files and not request.sets:
        raise Problem("no values given; use e.g. -f values/a100-2node.yaml")
    planned = planning.Request(run=target.run, files=request.files, sets=request.sets)
    if planning.run(planned, console):
        return int(Exit.FAILED)
    report = doctor.diagnose(
        doctor.Request(
            run=target.run,
            files=request.files,
            sets=request.sets,
            namespace=target.namespace,
            context=target.context,
        )
    )
    show_findings(report, console)
    if failures(report):
        return int(Exit.FAILED)
    command = install(request, report.context, report.namespace)
    if request.dry_run:
        console.print(f"would run: {' '.join(command)}", soft_wrap=True, highlight=False)
        return int(Exit.OK)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"helm upgrade --install failed:\n{done.stderr.strip()}")
    place = f"namespace {report.namespace} of {report.context}"
    console.print(f"submitted {target.run} to {place}", soft_wrap=True, highlight=False)
    api = replace(target, namespace=report.namespace, context=report.context).connect()

    def look() -> tuple[View, Sequence[str]]:
        view, reading = observe(target, api, reader=False)
        return view, notes(view, reading)

    if request.until is Until.SUBMITTED:
        return follow(look, request.until, console)
    messages = QueueMessages(api=api, note=lambda text: _note(text, console))
    try:
        return follow(look, request.until, console, messages.look)
    finally:
        messages.close()


def _note(text: str, console: Console) -> None:
    console.print(f"note: {text}", soft_wrap=True, highlight=False)


def failures(report: Report) -> list[str]:
    """Return the ids of findings that keep a run from being submitted."""
    failed = (each.id for each in report.findings if each.level is Level.FAIL)
    return [each for each in failed if each != EXISTS]


def install(request: Request, context: str, namespace: str) -> list[str]:
    """Return Helm's command."""
    command = [str(find_helm()), "upgrade", "--install", "--kube-context", context]
    command += ["--namespace", namespace]
    for file in request.files:
        command += ["--values", str(file)]
    for assignment in request.sets:
        command += ["--set", assignment]
    return [*command, "--", request.target.run, str(CHART)]
