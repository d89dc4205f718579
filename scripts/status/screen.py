"""Draw the status of a run for a terminal of any width."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from launchers.units import count_text
from scripts.observe import spent
from scripts.observe.command import place
from scripts.plan.bars import EMPTY, FULL
from scripts.plan.units import bytes_text, time_text
from scripts.prices import NONE, Prices
from scripts.status.summary import Local, Measured, Saved, Status
from scripts.terminal import plain_table
from scripts.why.command import COLOURS

LABEL = 9
"""Columns of the names on the left."""
BAR = (20, 40)
"""Columns of the step bar, on a narrow and a wide terminal."""
WIDE = 100
"""Columns from which a terminal is wide."""


def show(
    status: Status, console: Console, how: str, notes: list[str], prices: Prices = NONE
) -> None:
    """Print a status."""
    heading = Text.assemble(
        (status.run, "bold"),
        "  ",
        (status.state.value, COLOURS[status.state]),
        f"  {place(status.namespace, status.context)}",
    )
    console.print(heading)
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=LABEL)
    grid.add_column(overflow="fold")
    for label, text in _lines(status, console.width, prices):
        grid.add_row(Text(label, style="dim"), text)
    console.print(grid)
    for table in _tables(status):
        console.print()
        console.print(table)
    console.print()
    foot = Table.grid(padding=(0, 1))
    foot.add_column(width=LABEL)
    foot.add_column(overflow="fold")
    for label, line in [("files", how), *(("note", each) for each in notes)]:
        foot.add_row(Text(label, style="dim"), Text(line, style="dim"))
    console.print(foot)


def _lines(status: Status, width: int, prices: Prices) -> Iterator[tuple[str, Text]]:
    yield "state", Text(status.reason.sentence)
    if status.start:
        yield "start", Text(status.start.sentence)
    if status.step is not None and status.total:
        yield "step", _bar(status, BAR[width >= WIDE])
    if status.loss is not None:
        yield "training", Text(_quality("loss", status.loss, status.accuracy, status.margin))
    elif status.lacks_loss is not None:
        yield "training", Text(f"step {status.lacks_loss} has no finite loss", style="yellow")
    for name in ("last", "best"):
        found = status.held_out.get(name)
        if isinstance(found, Mapping):
            text = _quality("loss", found.get("loss"), found.get("accuracy"), found.get("margin"))
            yield "held out", Text(f"{name}: {text} at step {found.get('step')}")
    if status.rows:
        yield "rows", Text(_rows(status.rows))
    if status.prompts:
        yield "prompts", Text(status.prompts)
    if status.speed.value is not None:
        yield "speed", Text(_speed(status))
        yield "", Text(_mfu(status))
    if status.memory_gib.value is not None:
        of = f" of {status.memory_of_gib:.1f}" if status.memory_of_gib else ""
        plan = _plan(status.memory_gib, "{:.1f}")
        yield "memory", Text(f"{status.memory_gib.value:.1f}{of} GiB reserved{plan}")
    if status.saved:
        yield "saved", Text(_saved(status))
    if status.local:
        yield "local", Text(_local(status.local))
    if status.effective is not None:
        yield (
            "effective",
            Text(f"{_percent(status.effective)} of the time went into steps that count"),
        )
    if status.spent:
        yield "cost", Text(spent.text(status.spent, prices, status.gpu_model))
    if status.budget:
        yield "budget", Text(status.budget, style="yellow")
    if status.stages:
        yield "stages", Text(", ".join(_stages(status)))
    if status.nodes:  # of a JobSet; without one there is nothing that counts them
        yield "restarts", Text(_restarts(status))


def _rows(rows: Mapping[str, Any]) -> str:
    """Return the counts of rows and the reasons of those that are dropped or doubtful.

    >>> _rows({"rows_read": 8, "rows_kept": 6, "rows_dropped": {"no messages": 2}})
    '6 of 8 kept; dropped: no messages 2'
    >>> _rows({"rows_not_counted": "streaming"})
    'not counted: streaming'
    >>> _rows({"rows_read": 8, "rows_kept": 8, "rows_so_far": "", "rows_drawn": 40,
    ...        "rows_replaced": {"longer than max_length": 2}})
    '8 of 8 kept so far; of 40 drawn, others took the place of: longer than max_length 2'
    """
    if why := rows.get("rows_not_counted"):
        return f"not counted: {why}"
    text = f"{rows.get('rows_kept')} of {rows.get('rows_read')} kept"
    text += " so far" if "rows_so_far" in rows else ""
    drawn = f"of {rows.get('rows_drawn')} drawn, others took the place of"
    labels = {"rows_dropped": "dropped", "pairs_doubtful": "trained on, but"}
    for name, label in (labels | {"rows_replaced": drawn}).items():
        if found := rows.get(name):
            text += f"; {label}: {', '.join(f'{why} {count}' for why, count in found.items())}"
    return text


def _bar(status: Status, columns: int) -> Text:
    step, total = status.step or 0, status.total or 1
    done = min(columns, columns * step // total)
    bar = Text(f"{step}/{total} ")
    bar.append(FULL * done, style="green")
    bar.append(EMPTY * (columns - done), style="dim")
    bar.append(f" {_percent(step / total)}")
    if status.step_seconds.value is not None:
        bar.append(f", {time_text(status.step_seconds.value)} a step")
    if status.eta_seconds is not None:
        bar.append(f", {time_text(status.eta_seconds)} left")
    return bar


def _quality(name: str, loss: object, accuracy: object, margin: object) -> str:
    found = ((name, loss, ".4f"), ("accuracy", accuracy, ".3f"), ("margin", margin, ".4f"))
    return ", ".join(
        f"{name} {value:{form}}" for name, value, form in found if isinstance(value, int | float)
    )


def _plan(measured: Measured, form: str) -> str:
    """Return the plan's number and the deviation in brackets.

    >>> _plan(Measured(value=9.0, planned=10.0), "{:.0f}"), _plan(Measured(value=9.0), "{:.0f}")
    (' (plan 10, -10 %)', '')
    """
    if measured.planned is None or measured.deviation is None:
        return ""
    return f" (plan {form.format(measured.planned)}, {100 * measured.deviation:+.0f} %)"


def _speed(status: Status) -> str:
    return f"{status.speed.value:,.0f} tokens/s per GPU" + _plan(status.speed, "{:,.0f}")


def _mfu(status: Status) -> str:
    if status.mfu.value is None:
        return "MFU not known"
    plan = _plan(
        Measured(value=100 * status.mfu.value, planned=_hundred(status.mfu.planned)), "{:.1f} %"
    )
    return f"MFU {_percent(status.mfu.value, 1)}{plan}"


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _saved(status: Status) -> str:
    saved = status.saved
    assert saved is not None
    age = f", {time_text(saved.age_seconds)} ago" if saved.age_seconds is not None else ""
    lost = f"; an end without a save now loses {_lost(saved)}" if status.state != "done" else ""
    return f"step {saved.step} ({bytes_text(saved.bytes)}){age}{lost}"


def _lost(found: Saved | Local) -> str:
    cost = f", {time_text(found.lost_seconds)}" if found.lost_seconds else ""
    return f"{count_text(found.lost_steps, 'step')}{cost}"


def _local(local: Local) -> str:
    """Return what the nodes' disks have that the workspace has not.

    >>> _local(Local(kind="hostPath", step=34, parts=16, copied=3))
    "step 34 on the nodes' disks, 3 of 16 ranks copied; an end on the same nodes loses 0 steps"
    """
    where = "in the same pods" if local.kind == "emptyDir" else "on the same nodes"
    if local.step is None:
        return f"nodes' disks ({local.kind}): nothing waits for its copy to the workspace"
    copied = f"{local.copied} of {local.parts} ranks copied"
    lost = f"an end {where} loses {_lost(local)}"
    return f"step {local.step} on the nodes' disks, {copied}; {lost}"


def _stages(status: Status) -> Iterator[str]:
    for each in status.stages:
        seconds = f" {time_text(each.seconds)}" if each.seconds else ""
        yield f"{each.name} {each.state}{seconds}"


def _restarts(status: Status) -> str:
    counted = f"{status.counted_restarts} of {status.max_restarts} counted"
    age = f"; installed {time_text(status.age_seconds)} ago" if status.age_seconds else ""
    return f"{status.restarts} ({counted}){age}"


def _tables(status: Status) -> Iterator[Table]:
    if status.ranks:
        table = plain_table("rank", "pod", "node", "topology", "phase")
        for each in status.ranks:
            code = f" (exit code {each.exit_code})" if each.exit_code is not None else ""
            phase = each.phase + code
            table.add_row(str(each.rank), each.pod, each.node or "-", each.domain or "-", phase)
        yield table
    if status.attempts:
        table = plain_table("attempt", "from", "to", "lost", "gap", "ended by")
        for one in status.attempts:
            steps = f"{count_text(one.lost_steps, 'step')}, {time_text(one.lost_seconds)}"
            table.add_row(
                str(one.number),
                "-" if one.resumed is None else str(one.resumed),
                "-" if one.last_step is None else str(one.last_step),
                steps if one.lost_steps else "-",
                "-" if one.gap_seconds is None else time_text(one.gap_seconds),
                one.cause or "-",
            )
        yield table
