"""Plan all runs of a sweep, ask, submit them one after the other, and tell what became of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from launchers.exits import LaunchError
from launchers.plan.run_length import Duration
from scripts import prices
from scripts.doctor.findings import Level
from scripts.observe.command import Exit, Target
from scripts.plan import command as planning
from scripts.plan.units import time_text
from scripts.prices import Prices
from scripts.problem import Problem, WrongUse
from scripts.report.command import MOST as MOST_IN_A_REPORT
from scripts.submit import command as submitting
from scripts.submit.command import Outcome
from scripts.sweep.variants import Variant, variants
from scripts.terminal import SCHEMA, print_json, terminal


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo sweep`."""

    target: Target
    """Its run is the beginning of all names."""
    vary: Sequence[str]
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One run, before it is submitted."""

    variant: Variant
    duration: Duration | None = None
    cost: str = ""
    """Of its GPU-hours; empty without a price."""
    refused: str = ""
    """Why it is not submitted; empty if it may be."""


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """One run, after it was submitted or refused."""

    planned: Planned
    said: str
    """What became of it, in one line or in the words of what refused it."""
    code: int
    """As of `megatron-dpo submit`."""


def run(
    request: Request, console: Console, asking: Callable[[str], bool], *, as_data: bool = False
) -> int:
    """Submit a sweep; return 0, or 1 if a run was refused or has failed.

    With ``as_data`` one JSON document is printed at the end, all else to stderr.

    Raises:
        WrongUse: the varied values are not of the form that `variants` reads.
    """
    words = terminal(stderr=True) if as_data else console
    if not request.files and not request.sets:
        raise WrongUse("no values given; use e.g. -f values/a100-2node.yaml")
    table = prices.read()
    planned = [_plan(request, each, table) for each in variants(request.target.run, request.vary)]
    words.print(_plans(planned))
    words.print(_total(planned), highlight=False)
    may = [each for each in planned if not each.refused]
    if may and not request.dry_run and not asking(f"Submit {len(may)} of {len(planned)} runs?"):
        return int(Exit.FAILED)
    done = []
    for each in planned:
        done.append(_submit(request, each))
        state = "failed" if done[-1].code == Exit.FAILED else "ok"
        line = f"{state:<6} {each.variant.run}: {done[-1].said}"
        words.print(line, soft_wrap=True, highlight=False)
    names = [each.planned.variant.run for each in done if each.code != Exit.FAILED]
    if names and not request.dry_run:
        target = request.target
        place = [f"-n {target.namespace}"] if target.namespace else []
        place += [f"--context {target.context}"] if target.context else []
        compared = " ".join([*names[:MOST_IN_A_REPORT], *place])
        words.print(f"compare them: megatron-dpo report {compared}", soft_wrap=True)
    if as_data:
        print_json(console, document(request, done))
    return int(Exit.FAILED if any(each.code == Exit.FAILED for each in done) else Exit.OK)


def document(request: Request, done: Sequence[Submitted]) -> Mapping[str, Any]:
    """Return a sweep as JSON data."""
    return {"schema": SCHEMA, "dry_run": request.dry_run, "runs": [_row(each) for each in done]}


def _row(each: Submitted) -> Mapping[str, Any]:
    length = each.planned.duration
    return {
        "run": each.planned.variant.run,
        "values": dict(each.planned.variant.values),
        "hours": length and round(length.hours, 3),
        "gpu_hours": length and round(length.gpu_hours, 1),
        "accepted": each.code != Exit.FAILED,
        "says": each.said,
    }


def _plan(request: Request, variant: Variant, table: Prices) -> Planned:
    planned = planning.Request(
        run=variant.run, files=request.files, sets=[*request.sets, *variant.sets]
    )
    try:
        _, plan, verdict = planning.predict(planned)
    except Problem as problem:
        return Planned(variant=variant, refused=str(problem))
    cost = ""
    if plan.duration and plan.gpu:
        cost = table.of(plan.gpu.name, plan.duration.gpu_hours)
    refused = "\n".join(verdict.refusals)
    return Planned(variant=variant, duration=plan.duration, cost=cost, refused=refused)


def _submit(request: Request, planned: Planned) -> Submitted:
    """Submit one run; what refuses it is said, and the next one is submitted."""
    if planned.refused:
        return Submitted(planned=planned, said=planned.refused, code=int(Exit.FAILED))
    target = replace(request.target, run=planned.variant.run)
    one = submitting.Request(
        target=target,
        files=request.files,
        sets=[*request.sets, *planned.variant.sets],
        dry_run=request.dry_run,
    )
    outcome = Outcome(context=target.context, namespace=target.namespace)
    try:
        # The doctor prints a page for each run; what it refuses is in the outcome.
        code = submitting.submit_planned(one, terminal(quiet=True), outcome)
    except (Problem, OSError, LaunchError) as problem:
        code = int(Exit.UNKNOWN if outcome.submitted else Exit.FAILED)
        said = f"submitted, and its state is not known: {problem}"
        return Submitted(
            planned=planned, said=said if outcome.submitted else str(problem), code=code
        )
    return Submitted(planned=planned, said=_said(outcome), code=code)


def _said(outcome: Outcome) -> str:
    if outcome.states:
        return str(outcome.states[-1]["sentence"])
    failed = [each for each in outcome.findings if each.level is Level.FAIL]
    if outcome.refused:
        return "; ".join(f"{each.subject}: {each.found}; {each.remedy}" for each in failed)
    return "would be installed"


def _plans(planned: Sequence[Planned]) -> Table:
    table = Table("run", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for heading in (*planned[0].variant.values, "time", "GPU-hours", "cost"):
        table.add_column(heading, overflow="fold")
    for each in planned:
        length = each.duration
        cells = ["refused" if each.refused else "?"]
        if length and not each.refused:
            cells = [time_text(3600 * length.hours), f"{length.gpu_hours:,.0f}", each.cost]
        table.add_row(each.variant.run, *each.variant.values.values(), *cells)
    return table


def _total(planned: Sequence[Planned]) -> str:
    may = [each for each in planned if not each.refused]
    hours = [each.duration.gpu_hours for each in may if each.duration]
    unknown = len(may) - len(hours)
    parts = [f"{sum(hours):,.0f} GPU-hours (predicted)"] if hours else []
    parts += [f"the time of {unknown} is not known, see megatron-dpo plan"] if unknown else []
    return f"{len(may)} of {len(planned)} runs can be submitted: {', '.join(parts) or 'none'}"
