"""`megatron-dpo doctor`: asks a cluster about a release before it is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from scripts.doctor import api, release
from scripts.doctor.examine import examine
from scripts.doctor.gather import gather
from scripts.doctor.report import Report, as_json, show
from scripts.helm import template
from scripts.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to look at, and where."""

    run: str
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    namespace: str | None = None
    """None: the context's."""
    context: str | None = None
    """None: the kubeconfig's current one."""


def run(request: Request, console: Console, *, as_data: bool = False) -> int:
    """Render, ask, judge, print; returns the exit status.

    Raises:
        Problem: the chart refuses the values, or there is no kubeconfig.
    """
    report = examined(request)
    if as_data:
        console.print(as_json(report), soft_wrap=True, highlight=False, markup=False)
    else:
        show(report, console)
    return report.exit_code


def examined(request: Request) -> Report:
    """What is found of a request."""
    if not request.files and not request.sets:
        raise Problem("no values to look at; write -f values/a100-2node.yaml")
    rendered = release.parse(request.run, template(request.run, request.files, request.sets))
    server = api.connect(request.context, request.namespace)
    findings = examine(rendered, gather(server, rendered))
    return Report(
        context=server.context,
        namespace=server.namespace,
        run=request.run,
        findings=findings,
    )
