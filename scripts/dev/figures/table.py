"""The tables of values/FIGURES.md, as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from launchers.plan import flops
from scripts.dev.figures import measured
from scripts.dev.figures.markdown import table
from scripts.dev.figures.measured import WHOLE, Run
from scripts.dev.figures.predicted import BASE, Predicted

PREDICTED = (
    "GPU model", "GPUs", "file", "trains", "layout", "recomputed", "GiB of the GPU", "tok/s/GPU",
    "measured",
)  # fmt: skip
MEASURED = (
    "run", "result", "layers", "GPUs", "packs a step", "s/step, p95", "tok/s/GPU", "MFU", "GiB",
    "balance", "first loss", "against",
)  # fmt: skip

HEADLINE = (
    "run", "result", "Transformer Engine", "our features", "packs a step", "steps", "tok/s/GPU",
    "with the reference, one epoch", "MFU", "GiB",
)  # fmt: skip
ENOUGH = 10
"""Fewest steps of a headline figure."""
SPLIT = "bench-4gpu-split"
"""Results of the lines that separate flags from code (``tests/bench/visits.yaml``)."""


def predicted(rows: Sequence[Predicted], runs: Sequence[Run]) -> str:
    """Return a line for each profile and GPU model."""
    return table(PREDICTED, [_predicted(row, runs) for row in rows])


def _predicted(row: Predicted, runs: Sequence[Run]) -> tuple[str, ...]:
    plan = row.plan
    assert plan.training is not None and plan.memory is not None
    assert plan.speed is not None and plan.gpu is not None
    training, speed = plan.training, plan.speed
    layout, tokens = training.layout, speed.tokens_per_step / training.layout.world
    run = measured.best(runs, gpu_model=row.gpu_model, gpus=row.gpus, file=row.file)
    return (
        row.gpu_model,
        str(row.gpus),
        _link(row.file),
        "all parameters" if training.tuner == "full" else "LoRA",
        f"TP{layout.tp} PP{layout.pp} EP{layout.ep}",
        _recomputed(row),
        f"{plan.memory.total:.1f} of {plan.gpu.memory_gib:.1f}",
        f"{_count(speed.tokens_per_second_per_gpu)} "
        f"({_count(tokens / speed.high)} to {_count(tokens / speed.low)})",
        "" if run is None else _measured(run),
    )


def _measured(run: Run) -> str:
    return f"{_count(run.rate)} with {run.packs} packs, {run.figures['reserved_gib']:.1f} GiB"


def _link(file: Path) -> str:
    return "`a100-2node.yaml`" if file == BASE else f"`hardware/{file.name}`"


def _recomputed(row: Predicted) -> str:
    training, model = row.plan.training, row.plan.job.model_config
    assert training is not None and model is not None
    if training.recompute != "full":
        return "nothing" if training.recompute == "none" else training.recompute
    if training.recompute_method != "block":
        return "all layers"
    again = flops.recomputed(model, training) * model.layers
    return f"{again:.0f} of {model.layers} layers"


def headline(runs: Sequence[Run]) -> str:
    """Return all tokens over all seconds of each run of the whole model with enough steps.

    With the sentence of ``split`` below the table, if its runs are there.
    """
    found = [run for run in runs if run.is_whole and run.overall and _steps(run) >= ENOUGH]
    if not found:
        return "None yet."
    said = split(found)
    return table(HEADLINE, [_headline(run) for run in found]) + (f"\n\n{said}" if said else "")


def _steps(run: Run) -> int:
    return int(run.figures["steps"])


def _headline(run: Run) -> tuple[str, ...]:
    overall, epoch = run.overall, run.over_one_epoch
    assert overall is not None
    return (
        run.name,
        run.link,
        run.engine,
        "none" if run.is_bare else "all" if run.figures["profile"].get("kept") is None else "some",
        f"{run.packs} of {int(run.figures['flags'].get('packing_length', 8192)) // 1024}k",
        str(_steps(run)),
        _count(overall),
        "" if epoch is None else _count(epoch),
        f"{run.figures['overall']['mfu']:.1%}",
        f"{run.figures['reserved_gib']:.1f}",
    )


def split(runs: Sequence[Run]) -> str:
    """Return what flags and what code give: tuned over bare over the seed, all of ``split*``."""
    lines = {run.name: run for run in runs if run.result.startswith(SPLIT)}
    if not lines.keys() >= {"tuned", "bare", "seed-bare"}:
        return ""
    tuned, bare, seed = (lines[name] for name in ("tuned", "bare", "seed-bare"))
    assert tuned.overall and bare.overall and seed.overall
    text = (
        f"Of the {tuned.overall / seed.overall:.1f} x speed-up flags give "
        f"{bare.overall / seed.overall:.1f} x and our code {tuned.overall / bare.overall:.2f} x"
    )
    if tuned.over_one_epoch:
        ratios = tuned.over_one_epoch / seed.overall, tuned.over_one_epoch / bare.overall
        text += (
            f"; with the reference's pass over one epoch {ratios[0]:.1f} x, our code "
            f"{ratios[1]:.2f} x"
        )
    return text + "."


def ran(runs: Sequence[Run]) -> str:
    """Return a line for each measured run, the whole model first."""
    if not runs:
        return "None yet."
    ordered = sorted(runs, key=lambda run: not run.is_whole)
    return table(MEASURED, [_ran(run) for run in ordered])


def _ran(run: Run) -> tuple[str, ...]:
    figures = run.figures
    seconds, loss = figures["seconds"], figures["first_loss"]["first"]
    balance = figures["load_balancing_loss"]
    return (
        run.name,
        run.link,
        f"{run.layers}" + f", {run.experts} experts" * (run.experts != WHOLE[1]),
        f"{run.gpus} {run.gpu_model}",
        str(run.packs),
        f"{seconds['median']:.2f}, {seconds['p95']:.2f}",
        f"{_count(run.rate)} ± {_count(figures['tokens_per_second_per_gpu']['mad'])}",
        f"{figures['mfu']:.1%}",
        f"{figures['reserved_gib']:.1f}",
        "" if balance is None else f"{balance:.3f}",
        "" if loss is None else f"{loss:.6f}",
        "" if run.against is None else f"{run.against:.2f} x",
    )


def _count(number: float) -> str:
    """Return a number rounded to two or three significant digits.

    >>> _count(7649.4), _count(83.2)
    ('7,650', '83')
    """
    rounded = round(number, -1) if number >= 1000 else number
    return f"{rounded:,.0f}"
