"""The plot of step time by phase, predicted for every profile and as measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from launchers.plan.step_time import Speed
from scripts.dev.figures import measured
from scripts.dev.figures.canvas import canvas, save
from scripts.dev.figures.measured import Run
from scripts.dev.figures.predicted import Predicted

COLOURS = {
    "compute": "#4477aa",
    "bubble": "#bbbbbb",
    "NVLink": "#228833",
    "network": "#ee6677",
    "optimizer": "#ccbb44",
}


def phases(speed: Speed) -> dict[str, float]:
    """Return the seconds of a predicted step by phase; they sum up to the step."""
    links = speed.communication
    return {
        "compute": speed.compute_seconds,
        "bubble": speed.bubble_seconds,
        "NVLink": links.get("nvlink", 0.0),
        "network": sum(seconds for link, seconds in links.items() if link != "nvlink"),
        "optimizer": speed.optimizer_seconds,
    }


def draw(rows: Sequence[Predicted], runs: Sequence[Run], path: Path) -> None:
    """Write the plot as SVG: milliseconds of a GPU for 1,000 tokens, so that profiles compare."""
    figure = canvas(8, 0.28 * len(rows) + 1.2)
    axes = figure.subplots()
    bars = [_milliseconds(row) for row in rows]
    names = [_name(row) for row in rows]
    places = range(len(rows))
    left = [0.0] * len(rows)
    for phase, colour in COLOURS.items():
        widths = [bar[phase] for bar in bars]
        axes.barh(places, widths, left=left, color=colour, label=phase)
        left = [at + width for at, width in zip(left, widths, strict=True)]
    for place, row in enumerate(rows):
        run = measured.best(runs, gpu_model=row.gpu_model, gpus=row.gpus, file=row.file)
        if run is not None:
            label = "measured" if "measured" not in axes.get_legend_handles_labels()[1] else None
            axes.plot(1e6 / run.rate, place, "kD", markersize=5, label=label)
    axes.set_yticks(list(places), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("GPU milliseconds for 1,000 tokens, predicted")
    axes.legend(fontsize=7, loc="lower right")
    save(figure, path)


def _name(row: Predicted) -> str:
    assert row.plan.training is not None
    return f"{row.gpus} x {row.gpu_model}" + " LoRA" * (row.plan.training.tuner != "full")


def _milliseconds(row: Predicted) -> Mapping[str, float]:
    assert row.plan.speed is not None
    speed = row.plan.speed
    scale = 1e6 * row.gpus / speed.tokens_per_step
    return {name: seconds * scale for name, seconds in phases(speed).items()}
