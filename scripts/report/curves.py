"""The curves of the page: what is drawn together, under which title, and the plan's lines."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launchers.state.json_text import part
from launchers.yaml_file import read_yaml
from scripts.report.columns import Points
from scripts.report.numbers import LARGEST
from scripts.report.record import RunRecord

EVALUATED = "eval:"
"""Prefix of series that come from evaluations on held-out pairs."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One set of axes."""

    id: str
    title: str
    unit: str
    series: Mapping[str, str]
    """Column of ``metrics.jsonl``, or `EVALUATED` and the evaluation's number, to its label."""
    note: str = ""
    from_zero: bool = True
    """Whether the axis includes zero."""
    top: float | None = None
    """Fixed upper end."""
    log: bool = False
    """Whether a wide range of positive values is drawn on a logarithmic axis."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart."""

    run: int
    """Index of the run."""
    part: int
    """Index of the series in its chart."""
    label: str
    points: Points
    is_evaluation: bool = False


@dataclass(frozen=True, kw_only=True)
class Line:
    """A horizontal line: a prediction or a known value."""

    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A chart with its data."""

    chart: Chart
    series: Sequence[Series]
    lines: Sequence[Line] = ()
    resumes: Sequence[int] = ()
    """Steps at which a later attempt began."""


PROCESS = "per process"
"""In a unit; a process has one GPU, if there are GPUs."""
CHARTS = tuple(Chart(**row) for row in read_yaml(Path(__file__).with_suffix(".yaml")))
MFU_NOTE = next(each.note for each in CHARTS if each.id == "mfu")


def drawings(runs: Sequence[RunRecord]) -> list[Drawing]:
    """Return the charts for which at least one run has data."""
    return [found for chart in CHARTS if (found := _drawing(chart, runs)).series]


def absent(runs: Sequence[RunRecord]) -> list[str]:
    """Return the titles of charts without data."""
    return [chart.title for chart in CHARTS if not _drawing(chart, runs).series]


def _drawing(chart: Chart, runs: Sequence[RunRecord]) -> Drawing:
    if all(run.has_gpus for run in runs):
        chart = replace(chart, unit=chart.unit.replace(PROCESS, "per GPU"))
    found = [
        Series(
            run=index,
            part=part,
            label=label,
            points=points,
            is_evaluation=name.startswith(EVALUATED),
        )
        for index, run in enumerate(runs)
        for part, (name, label) in enumerate(chart.series.items())
        if (points := _points(run, name)).steps
    ]
    alone = len(runs) == 1
    return Drawing(
        chart=chart,
        series=found,
        lines=list(_lines(chart.id, runs[0])) if alone else (),
        resumes=[a.first_step for a in runs[0].attempts[1:] if a.first_step and a.first_step > 1]
        if alone
        else (),
    )


def _points(run: RunRecord, name: str) -> Points:
    if not name.startswith(EVALUATED):
        return run.curves.get(name, Points())
    key = name.removeprefix(EVALUATED)
    pairs = [
        (float(each.step), value)
        for each in run.evaluations
        if (value := each.values.get(key)) is not None and abs(value) < LARGEST
    ]
    values = tuple(value for _, value in pairs)
    return Points(
        steps=tuple(step for step, _ in pairs),
        means=values,
        lows=values,
        highs=values,
        recorded=len(pairs),
    )


def _lines(chart: str, run: RunRecord) -> Iterator[Line]:
    """Yield what the plan predicted, and the loss of a policy without a preference."""
    speed, memory = part(run.plan, "speed"), part(run.plan, "memory")
    planned = {
        "speed": speed.get("tokens_per_second_per_gpu"),
        "mfu": speed.get("mfu"),
        "seconds": speed.get("step_seconds"),
        "memory": memory.get("total_gib"),
    }.get(chart)
    if isinstance(planned, int | float) and abs(planned) < LARGEST:
        yield Line(label="plan", value=planned)
    gpu_gib = memory.get("card_gib")
    if chart == "memory" and isinstance(gpu_gib, int | float) and abs(gpu_gib) < LARGEST:
        yield Line(label="GPU", value=gpu_gib)
    args = part(part(run.plan, "recipe"), "args")
    if chart == "loss" and args.get("rlhf_type") == "dpo" and _is_plain(args):
        yield Line(label="ln 2", value=math.log(2))


def _is_plain(args: Mapping[str, Any]) -> bool:
    """Return whether the loss is DPO's alone, whose value without a preference is ln 2."""
    return args.get("loss_type", "sigmoid") == "sigmoid" and not args.get("rpo_alpha")
