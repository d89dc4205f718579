"""Submit a run: plan, doctor, `helm upgrade --install`, then follow it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from scripts import prices
from scripts.doctor import command as doctor
from scripts.doctor.findings import Finding, Level, Report
from scripts.doctor.findings import show as show_findings
from scripts.helm import CHART, find_helm, options, run_helm
from scripts.observe.command import SKEW_SECONDS, Exit, Target, notes
from scripts.observe.view import View
from scripts.observe.watch import Look, Watch
from scripts.plan import command as planning
from scripts.problem import Problem
from scripts.start.view import start
from scripts.submit import budget, follow
from scripts.submit.follow import Until
from scripts.submit.webhook import QueueMessages
from scripts.terminal import SCHEMA, print_json, terminal
from scripts.why.reasons import Reason

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
    by: str | None = None
    budget: str | None = None
    among: Sequence[Path] = ()
    """See `budget.py`."""


@dataclass(kw_only=True)
class Outcome:
    """Result of a submission so far."""

    context: str | None
    namespace: str | None
    refused: str | None = None
    """`plan` or `doctor`: what refused it."""
    command: Sequence[str] = ()
    """Helm's, empty if it was refused before."""
    submitted: bool = False
    findings: Sequence[Finding] = ()
    budget: Mapping[str, Any] | None = None
    """What was chosen for `--by` and `--budget`; None without them."""
    states: list[Mapping[str, Any]] = field(default_factory=list)
    """Each state that was seen, in order: `time` (Unix), `id`, `kind`, `sentence`, `remedy`,
    `start`."""

    def see(self, view: View, first: Reason) -> None:
        """Record a state, unless it is still the last one."""
        if self.states and self.states[-1]["id"] == first.id:
            return
        begin = start(view, first)
        words: dict[str, Any] = {"sentence": first.sentence, "remedy": first.remedy}
        words |= {"start": asdict(begin) if begin else None}
        self.states.append({"time": view.now, "id": first.id, "kind": first.kind.value, **words})


def run(request: Request, console: Console, *, as_data: bool = False) -> int:
    """Submit a run.

    With ``as_data`` one JSON document is printed at the end, all else to stderr.

    Raises:
        Problem: the chart refuses the values, or Helm fails.
    """
    outcome = Outcome(context=request.target.context, namespace=request.target.namespace)
    if not as_data:
        return submit(request, console, outcome)
    code = submit(request, terminal(stderr=True), outcome)
    print_json(console, document(request, outcome))
    return code


def document(request: Request, outcome: Outcome) -> Mapping[str, Any]:
    """Return a submission as JSON data."""
    return {
        "schema": SCHEMA,
        "run": request.target.run,
        "dry_run": request.dry_run,
        **asdict(outcome),
    }


def submit(request: Request, console: Console, outcome: Outcome) -> int:
    """Submit a run and note what happened; return the exit code.

    Raises:
        Problem: the chart refuses the values, or Helm fails.
    """
    target = request.target
    if not request.files and not request.sets:
        raise Problem("no values given; use e.g. -f values/a100-2node.yaml")
    if request.by or request.budget:
        request = _limited(request, console, outcome)
    planned = planning.Request(run=target.run, files=request.files, sets=request.sets)
    if planning.run(planned, console):
        outcome.refused = "plan"
        return int(Exit.FAILED)
    return submit_planned(request, console, outcome)


def _limited(request: Request, console: Console, outcome: Outcome) -> Request:
    """Return the request with the gang, layout and budget that meet its limits."""
    here = time.time()
    now = request.target.reach().get("/apis").time or here
    given = budget.limits(request.by, request.budget, now)
    table = prices.read() if request.budget else prices.NONE
    if request.budget and table == prices.NONE:
        raise Problem(f"--budget needs {prices.FILE}, a file with your prices; {prices.FORM}")
    planned = planning.Request(run=request.target.run, files=request.files, sets=request.sets)
    found, left_out = budget.choices(planned, request.among, table)
    best, warnings = budget.choose(found, given, now)
    warnings = [*left_out, *warnings]
    if abs(here - now) > SKEW_SECONDS:
        skew = f"this machine's clock is {here - now:+.0f} s off the API server's"
        warnings.append(f"{skew}; --by is by the latter")
    for line in budget.said(found, best, table):
        console.print(line, soft_wrap=True, highlight=False)
    for line in warnings:
        console.print(f"warning: {line}", soft_wrap=True, highlight=False, style="yellow")
    sets = [*best.sets, *budget.assignments(best, given)]
    outcome.budget = {"chosen": best.name, "sets": sets, "hours": round(best.hours, 3)}
    outcome.budget |= {"amount": round(best.cost, 2) if best.price else None, "warnings": warnings}
    return replace(request, files=best.files, sets=sets)


def submit_planned(request: Request, console: Console, outcome: Outcome) -> int:
    """Submit a run that the plan accepts, as `submit` does.

    Raises:
        Problem: Helm fails.
    """
    target = request.target
    report = _diagnose(request, console, outcome)
    if failures(report):
        outcome.refused = "doctor"
        return int(Exit.FAILED)
    outcome.command = command = install(request, report.context, report.namespace)
    if request.dry_run:
        console.print(f"would run: {' '.join(command)}", soft_wrap=True, highlight=False)
        return int(Exit.OK)
    run_helm(command)
    outcome.submitted = True
    place = f"namespace {report.namespace} of {report.context}"
    console.print(f"submitted {target.run} to {place}", soft_wrap=True, highlight=False)
    chosen = replace(target, namespace=report.namespace, context=report.context)
    watch = Watch(target=chosen, interval=follow.POLL_SECONDS)

    def look() -> tuple[View, Sequence[str]]:
        seen = watch.look()
        return seen.view, [*lost_notes(seen), *notes(seen.view, seen.reading)]

    if request.until is Until.SUBMITTED:
        return follow.follow(look, request.until, console, outcome.see)
    messages = QueueMessages(api=watch.api, note=lambda text: _note(text, console))

    def report_change(view: View, first: Reason) -> None:
        outcome.see(view, first)
        messages.look(view, first)

    try:
        return follow.follow(look, request.until, console, report_change, lambda: watch.wait)
    finally:
        messages.close()


def _diagnose(request: Request, console: Console, outcome: Outcome) -> Report:
    """Check the cluster, print the findings and note them in the outcome."""
    target = request.target
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
    outcome.context, outcome.namespace = report.context, report.namespace
    outcome.findings = report.findings
    return report


def lost_notes(look: Look) -> list[str]:
    """Return what a state without a newer answer says about itself, the same for one outage."""
    if not look.lost:
        return []
    since = f", so this is the state at {look.read_at:%H:%M:%SZ}" if look.read_at else ""
    return [f"no newer answer of the API server ({look.lost}){since}; it is asked again"]


def _note(text: str, console: Console) -> None:
    console.print(f"note: {text}", soft_wrap=True, highlight=False)


def failures(report: Report) -> list[str]:
    """Return the ids of findings that keep a run from being submitted."""
    failed = (each.id for each in report.findings if each.level is Level.FAIL)
    return [each for each in failed if each != EXISTS]


def install(request: Request, context: str, namespace: str) -> list[str]:
    """Return Helm's command."""
    command = [str(find_helm()), "upgrade", "--install", "--kube-context", context]
    command += ["--namespace", namespace, *options(request.files, request.sets)]
    return [*command, "--", request.target.run, str(CHART)]
