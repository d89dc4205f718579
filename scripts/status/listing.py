"""`megatron-dpo list`: the runs of a namespace, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.doctor.api import JOBSETS, NO_ANSWER, PODS, WORKLOADS, Answer, Api, Object
from scripts.observe.cluster import (
    CHART,
    CHART_LABEL,
    NAME_LABEL,
    UID_LABEL,
    Snapshot,
)
from scripts.observe.command import Exit, Target, print_json
from scripts.observe.source import Reading, Source, read_files
from scripts.observe.view import View
from scripts.plan.units import time_text
from scripts.problem import Problem
from scripts.status.summary import Status, summarise
from scripts.why.command import COLOURS

SCHEMA = 1
READERS = 8
"""Runs whose progress is read at once."""
WIDE = 100
"""Columns from which all columns are shown."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One run of the list."""

    run: str
    state: str
    reason: str
    """Id of the state that `why` reports first."""
    stage: str
    step: int | None
    total: int | None
    eta_seconds: float | None
    tokens_per_second_per_gpu: float | None
    position: int | None
    waiting: int | None
    """Position among the waiting runs, and their number if it is known."""
    age_seconds: float | None
    restarts: int


def run(target: Target, console: Console, *, as_data: bool = False) -> int:
    """Print the runs of the namespace.

    Progress is read from a mounted workspace, otherwise by exec in the pods that run; without
    either, and with `--source api`, its columns are empty.

    Raises:
        Problem: JobSets may not be listed, or there is no JobSet API.
    """
    api = target.connect()
    with ThreadPoolExecutor(READERS) as pool:
        found = list(pool.map(lambda view: _status(api, view, target), snapshots(api)))
    lines = [line(each) for each in found]
    if as_data:
        content = {"schema": SCHEMA, "context": api.context, "namespace": api.namespace}
        print_json(console, {**content, "runs": [asdict(each) for each in lines]})
    else:
        show(lines, api, console)
    return int(Exit.OK)


def snapshots(api: Api) -> list[View]:
    """Return the runs of the namespace, from three lists.

    Raises:
        Problem: JobSets may not be listed, or there is no JobSet API.
    """
    space = api.namespace
    with ThreadPoolExecutor(4) as pool:
        jobsets, pods, workloads, groups = pool.map(
            lambda asked: api.get(asked[0], **asked[1]),
            [
                (JOBSETS.path(space), {"labelSelector": f"{CHART_LABEL}={CHART}"}),
                (PODS.path(space), {"labelSelector": f"{CHART_LABEL}={CHART}"}),
                (WORKLOADS.path(space), {}),
                ("/apis", {}),
            ],
        )
    if not jobsets.found:
        raise Problem(f"the runs of namespace {space} cannot be listed: {jobsets.why}")
    return [View(_snapshot(api, each, pods, workloads, groups, jobsets)) for each in jobsets.items]


def _snapshot(
    api: Api, jobset: Object, pods: Answer, workloads: Answer, groups: Answer, listed: Answer
) -> Snapshot:
    meta: Object = jobset["metadata"]
    now = listed.time

    def chosen(answer: Answer, label: str, value: str) -> Answer:
        items = [
            each
            for each in answer.items
            if (each["metadata"].get("labels") or {}).get(label) == value
        ]
        return Answer(status=200, content={"items": items}) if answer.found else answer

    return Snapshot(
        context=api.context,
        namespace=api.namespace,
        run=meta["name"],
        chosen=api.chosen,
        now=now or 0.0,
        answers={
            "get jobsets": Answer(status=200, content=jobset),
            "list pods": chosen(pods, NAME_LABEL, meta["name"]),
            "list workloads": chosen(workloads, UID_LABEL, meta["uid"]),
            "list workloads of the namespace": workloads,
            "get /apis": groups,
            "get localqueues": NO_ANSWER,
        },
    )


def _status(api: Api, view: View, target: Target) -> Status:
    source = target.source
    if source is Source.AUTO and target.workspace is None:
        source = Source.EXEC if any(rank.phase == "Running" for rank in view.ranks) else Source.API
    try:
        reading = read_files(api, view, target.workspace, source, reader=False)
    except Problem:  # this run's columns stay empty
        reading = Reading(files=None, how="")
    return summarise(View(view.snapshot, reading.files))


def line(status: Status) -> Line:
    """Return the line of a run."""
    return Line(
        run=status.run,
        state=status.state.value,
        reason=status.reason.id,
        stage=status.stage,
        step=status.step,
        total=status.total,
        eta_seconds=status.eta_seconds,
        tokens_per_second_per_gpu=status.speed.value,
        position=status.position.number if status.position else None,
        waiting=status.position.of if status.position else None,
        age_seconds=status.age_seconds,
        restarts=status.restarts,
    )


def show(lines: Sequence[Line], place: Api | Snapshot, console: Console) -> None:
    """Print the lines, on a narrow terminal without the columns that matter least."""
    if not lines:
        console.print(f"no runs in namespace {place.namespace} of {place.context}")
        return
    is_wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in (name for name, wide in COLUMNS.items() if is_wide or not wide):
        table.add_column(name, overflow="fold")
    for each in lines:
        table.add_row(*(cell for name, cell in _cells(each) if is_wide or not COLUMNS[name]))
    console.print(table)


COLUMNS: Mapping[str, bool] = {
    "run": False,
    "state": False,
    "why": False,
    "stage": True,
    "step": False,
    "left": False,
    "tok/s/GPU": True,
    "position": True,
    "age": False,
    "restarts": True,
}
"""Columns, and whether only a wide terminal shows them."""


def _cells(each: Line) -> Iterator[tuple[str, Text]]:
    colour = next(colour for kind, colour in COLOURS.items() if kind.value == each.state)
    steps = f"{each.step}/{each.total}" if each.step is not None else "-"
    speed = each.tokens_per_second_per_gpu
    of = f" of {each.waiting}" if each.waiting else ""
    place = "-" if each.position is None else f"{each.position}{of}"
    cells: Mapping[str, Any] = {
        "run": each.run,
        "state": each.state,
        "why": each.reason,
        "stage": each.stage or "-",
        "step": steps,
        "left": time_text(each.eta_seconds) if each.eta_seconds is not None else "-",
        "tok/s/GPU": f"{speed:,.0f}" if speed is not None else "-",
        "position": place,
        "age": time_text(each.age_seconds) if each.age_seconds is not None else "-",
        "restarts": str(each.restarts),
    }
    for name in COLUMNS:
        yield name, Text(str(cells[name]), style=colour if name == "state" else "")
