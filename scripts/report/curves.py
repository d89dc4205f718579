"""The curves of the page: what is drawn together, under which title, and the plan's lines."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from launchers.state.json_text import part
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
HELD_OUT = "held-out pairs"
BATCH = "training batches"
MFU_NOTE = (
    "MFU counts the forward pass of the reference in steps that run it: a third more FLOPs per "
    "token if all parameters are trained. It follows tokens/s only between runs that both do, or "
    "both do not."
)
CHARTS = (
    Chart(
        id="loss",
        title="Loss",
        unit="",
        series={"loss": BATCH, f"{EVALUATED}loss": HELD_OUT},
        log=True,
    ),
    Chart(
        id="accuracy",
        title="Preference accuracy",
        unit="share of pairs",
        series={"rewards/accuracies": BATCH, f"{EVALUATED}rewards/accuracies": HELD_OUT},
        top=1.0,
        note="A tie counts as wrong, so it is 0 while the policy equals the reference.",
    ),
    Chart(
        id="margin",
        title="Reward margin",
        unit="nats × beta",
        series={"rewards/margins": BATCH, f"{EVALUATED}rewards/margins": HELD_OUT},
    ),
    Chart(
        id="rewards",
        title="Rewards",
        unit="nats × beta",
        series={"rewards/chosen": "chosen", "rewards/rejected": "rejected"},
    ),
    Chart(
        id="logps",
        title="Log-probabilities of the policy",
        unit="nats per answer",
        series={"logps/chosen": "chosen", "logps/rejected": "rejected"},
        from_zero=False,
    ),
    Chart(
        id="gradient",
        title="Gradient norm",
        unit="before clipping",
        series={"grad_norm": "norm"},
        log=True,
    ),
    Chart(id="rate", title="Learning rate", unit="", series={"learning_rate": "rate"}),
    Chart(
        id="speed",
        title="Speed",
        unit=f"tokens/s {PROCESS}",
        series={"tokens_per_second_per_gpu": "real tokens"},
        note="Chosen and rejected tokens, each once, without padding.",
    ),
    Chart(
        id="mfu",
        title="MFU",
        unit="of the GPU's dense bf16 peak",
        series={"mfu": "MFU"},
        note=MFU_NOTE,
    ),
    Chart(id="seconds", title="Step time", unit="s", series={"seconds": "seconds"}, log=True),
    Chart(
        id="memory",
        title="GPU memory",
        unit="GiB, largest rank",
        series={"reserved_gib": "reserved", "allocated_gib": "allocated"},
    ),
    Chart(
        id="experts",
        title="Expert load",
        unit="largest over mean",
        series={"expert_load": "mean of layers", "expert_load_worst": "worst layer"},
        note="1 is balanced.",
        from_zero=False,
    ),
    Chart(
        id="fill",
        title="Pack fill",
        unit="real tokens of capacity",
        series={"fill": "fill"},
        top=1.0,
    ),
    Chart(
        id="balance",
        title="Token balance",
        unit="largest over mean of the ranks",
        series={"token_balance": "balance"},
        from_zero=False,
    ),
)


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
