"""`megatron-dpo list`: the runs of a namespace, one line each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from scripts.doctor.api import JOBSETS, PODS, WORKLOADS, Answer, Api, Object
from scripts.observe.ahead import ends
from scripts.observe.cluster import (
    ALL_WORKLOADS,
    CHART,
    CHART_LABEL,
    NAME_LABEL,
    OWN_WORKLOADS,
    QUEUES,
    UID_LABEL,
    Snapshot,
)
from scripts.observe.command import Exit, Target, own_clock, place
from scripts.observe.concurrent import call_each
from scripts.observe.source import read_files
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.observe.workspace import Unreadable, check_folder, run_names
from scripts.plan.units import time_text
from scripts.problem import Problem, UnknownState
from scripts.start.forecast import SOON, Start, clock
from scripts.start.view import starts
from scripts.status.summary import Status, summarise
from scripts.terminal import SCHEMA, plain_table, print_json
from scripts.why.command import COLOURS

UNBOUNDED = 10_000
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
    start: Start | None
    age_seconds: float | None
    restarts: int


def run(target: Target, console: Console, *, as_data: bool = False) -> int:
    """Print the runs of the namespace.

    Progress is read from a mounted workspace, otherwise by exec in the pods that run; without
    either, and with `--source api`, its columns are empty.

    Without an answer of the API server the runs of a mounted workspace are listed by their files.

    Raises:
        Problem: there is no JobSet API, or the mounted folder is none.
    """
    api = target.reach()
    notes: list[str] = []
    if target.workspace is not None and target.source in (Source.AUTO, Source.MOUNT):
        try:
            check_folder(target.workspace)
        except Unreadable as problem:  # the cluster's part of the list is still right
            notes.append(str(problem))
            target = replace(target, workspace=None, source=Source.API)
    views: list[View] | None
    code = Exit.OK
    try:
        views = snapshots(api)
    except UnknownState as problem:
        notes.append(str(problem))
        views = _recorded(api, target)
        code = Exit.UNKNOWN if views is None else Exit.OK
    found = call_each(lambda view: _read(api, view, target), views or [])
    lines = [line(each) for each in _statuses([view for view, _ in found])]
    notes += _notes(found)
    if as_data:
        content = {"schema": SCHEMA, "context": api.context, "namespace": api.namespace}
        content |= {"runs": [asdict(each) for each in lines], "notes": notes}
        print_json(console, content)
        return int(code)
    if views is not None:
        show(lines, api, console)
    for note in notes:
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
    return int(code)


def _statuses(views: Sequence[View]) -> list[Status]:
    """Return the numbers of runs, each with its start; their files tell when the others end."""
    held = {str(each.workload["metadata"].get("uid")): each for each in views if each.workload}
    known = views
    if held:  # one answer of the server has the time of all
        left, deadlines = ends(held, views[0].snapshot.now)
        known = [
            View(replace(each.snapshot, left=left, deadlines=deadlines), each.files)
            for each in views
        ]
    made = [summarise(each) for each in known]
    begins = starts([(view, each.reason) for view, each in zip(known, made, strict=True)])
    return [replace(each, start=begin) for each, begin in zip(made, begins, strict=True)]


def snapshots(api: Api) -> list[View]:
    """Return the runs of the namespace, from three lists, and those of the queues if one waits.

    Raises:
        UnknownState: no API server answers, or JobSets may not be listed.
        Problem: there is no JobSet API.
    """
    if api.unselected:
        raise UnknownState(f"no cluster was asked: {api.unselected}")
    space = api.namespace
    chart = {"labelSelector": f"{CHART_LABEL}={CHART}"}
    wanted: list[tuple[str, dict[str, str]]] = [
        (JOBSETS.path(space), chart),
        (PODS.path(space), chart),
        (WORKLOADS.path(space), {}),
        ("/apis", {}),
    ]
    sent_at = time.time()
    jobsets, pods, workloads, groups = call_each(
        lambda asked: api.get(asked[0], **asked[1]), wanted
    )
    if not jobsets.found:
        kind = Problem if jobsets.absent else UnknownState
        raise kind(f"the runs of namespace {space} cannot be listed: {jobsets.why}")
    queues: dict[str, Answer] = {}
    if any((each.get("spec") or {}).get("suspend") for each in jobsets.items):
        paths = {name: path for name, (path, _) in QUEUES.items()}
        paths[ALL_WORKLOADS] = WORKLOADS.path("")
        queues = dict(zip(paths, call_each(api.get, paths.values()), strict=True))
    owned = _by_label(pods, NAME_LABEL), _by_label(workloads, UID_LABEL)
    others = {OWN_WORKLOADS: workloads, "get /apis": groups}
    found = [_snapshot(api, each, owned, others, jobsets) for each in jobsets.items]
    skew = sent_at - jobsets.time if jobsets.time else 0.0
    return [View(replace(each, skew=skew, answers={**each.answers, **queues})) for each in found]


def _recorded(api: Api, target: Target) -> list[View] | None:
    """Return the runs of a mounted workspace, by name; None without one."""
    if target.workspace is None or target.source not in (Source.AUTO, Source.MOUNT):
        return None
    now = time.time()
    return [
        View(
            Snapshot(
                context=api.context,
                namespace=api.namespace,
                run=name,
                now=now,
                unselected=api.unselected,
            )
        )
        for name in run_names(target.workspace)
    ]


def _by_label(answer: Answer, label: str) -> Callable[[str], Answer]:
    """Return the function that gives the part of a list with a value of a label."""
    if not answer.found:
        return lambda _: answer
    parts: dict[str, list[Object]] = {}
    for each in answer.items:
        parts.setdefault((each["metadata"].get("labels") or {}).get(label, ""), []).append(each)
    return lambda value: Answer(status=200, content={"items": parts.get(value, [])})


def _snapshot(
    api: Api,
    jobset: Object,
    owned: tuple[Callable[[str], Answer], Callable[[str], Answer]],
    others: Mapping[str, Answer],
    listed: Answer,
) -> Snapshot:
    meta: Object = jobset["metadata"]
    now = listed.time
    pods, workloads = owned
    return Snapshot(
        context=api.context,
        namespace=api.namespace,
        run=meta["name"],
        chosen=api.chosen,
        now=now or 0.0,
        answers={
            "get jobsets": Answer(status=200, content=jobset),
            "list pods": pods(meta["name"]),
            "list workloads": workloads(meta["uid"]),
            **others,
        },
    )


def _read(api: Api, view: View, target: Target) -> tuple[View, Sequence[str]]:
    """Return a run with its files, and what was not read of them."""
    source = target.source
    if source is Source.AUTO and target.workspace is None:
        source = Source.EXEC if any(rank.phase == "Running" for rank in view.ranks) else Source.API
    try:
        reading = read_files(api, view, target.workspace, source, reader=False)
    except (Problem, OSError) as problem:  # this run's columns stay empty
        return view, [str(problem)]
    return View(view.snapshot, reading.files), reading.files.problems if reading.files else ()


def _notes(found: Sequence[tuple[View, Sequence[str]]]) -> list[str]:
    """Return what limits the list: missing permissions, lost answers, and files not read."""
    lacking = {each for view, _ in found for each in view.snapshot.missing_permissions}
    notes = [f"you lack the permission: {each}" for each in sorted(lacking)]
    lost = {view.snapshot.lost for view, _ in found} - {""}
    notes += [f"no answer of the API server ({each})" for each in sorted(lost)]
    unread = [(view.run, why) for view, problems in found for why in problems[:1]]
    if unread:
        run, why = unread[0]
        more = f", and of {len(unread) - 1} more" if len(unread) > 1 else ""
        notes.append(f"not all files of {run}{more} were read: {why}")
    return [*notes, *(own_clock(found[0][0]) if found else ())]


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
        start=status.start,
        age_seconds=status.age_seconds,
        restarts=status.restarts,
    )


def show(
    lines: Sequence[Line], seen: Api | Snapshot, console: Console, now: float | None = None
) -> None:
    """Print the lines, on a narrow terminal without the columns that matter least.

    Output to a pipe or file, which has no width, has whole lines and all columns.
    """
    if not lines:
        console.print(f"no runs {place(seen.namespace, seen.context, 'in ')}", highlight=False)
        return
    is_wide = console.width >= WIDE or not console.is_terminal
    table = plain_table(*(name for name, wide in COLUMNS.items() if is_wide or not wide))
    for each in lines:
        cells = _cells(each, now or time.time(), is_wide=is_wide)
        table.add_row(*(cell for name, cell in cells if is_wide or not COLUMNS[name]))
    if not console.is_terminal:
        whole = console.options.update(max_width=UNBOUNDED)
        console.width = max(console.width, Measurement.get(console, whole, table).maximum)
    console.print(table)


COLUMNS: Mapping[str, bool] = {
    "run": False, "state": False, "why": False, "stage": True, "step": False, "left": False,
    "tok/s/GPU": True, "position": True, "starts": False, "age": False, "restarts": True,
}  # fmt: skip
"""Columns, and whether only a wide terminal shows them."""


def _begin(start: Start | None, now: float, *, is_wide: bool) -> str:
    """Return when a run starts; on a narrow terminal without the interval."""
    if start is None or start.earliest is None:
        return "-"
    first = clock(start.earliest, now)
    if start.expected is None and start.earliest - now < SOON:
        return "not known"
    if start.expected is None:
        return f"not before {first} UTC" if is_wide else f"> {first}Z"
    last = f"to {clock(start.latest, now)}" if start.latest is not None else "or later"
    about = clock(start.expected, now)
    return f"{about} ({first} {last}) UTC" if is_wide else f"{about}Z"


def _cells(each: Line, now: float, *, is_wide: bool) -> Iterator[tuple[str, Text]]:
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
        "starts": _begin(each.start, now, is_wide=is_wide),
        "age": time_text(each.age_seconds) if each.age_seconds is not None else "-",
        "restarts": str(each.restarts),
    }
    for name in COLUMNS:
        yield name, Text(str(cells[name]), style=colour if name == "state" else "")
