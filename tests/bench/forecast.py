"""Predictions for the benches of the visits, compared with measured results; needs no GPU.

``python3 -m tests.bench forecast`` prints a table of the lines of ``visits.yaml`` for 4 and 8 H200;
``--write`` puts it between the markers in ``values/FIGURES.md``. Memory and seconds are the
planner's (``launchers/plan/memory.py``, ``step_time.py``); measured values are read from
the results ``bench-<visit>-<line>``.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchers.config import gpu_models
from launchers.plan import memory
from launchers.plan import step_time as speed
from launchers.plan.memory import Memory
from launchers.plan.step_time import Link, Speed
from scripts.dev import results
from scripts.dev.figures import markdown
from tests.bench.speed import options as bench_options
from tests.bench.speed import profiles as bench_profiles
from tests.bench.visit import lines as visit_lines

CARD = "h200"
VISITS = ("4gpu", "8gpu")
PAGE = bench_profiles.ROOT / "values" / "FIGURES.md"
SPREAD_OF_LENGTHS = 1052.5
"""Tokens: sum(L^2) / sum(L) of the bench's texts, ``s_eff`` of ``bench-24-layers-2xh200.json``."""
ONE_NODE = Link(name="none", gbs=1.0)
COLUMNS = (
    "visit",
    "line",
    "run",
    "layers",
    "GPUs",
    "packs a step",
    "GiB of 139.7",
    "GiB of the host",
    "s/step",
    "tok/s/GPU",
    "against",
    "measured",
)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    visit: str
    line: str
    run: str
    layers: int
    gpus: int
    packs: int
    memory: Memory
    speed: Speed
    against: float | None
    """Speed-up over the line's last profile, if that is the comparison."""
    measured: float | None
    """Measured median of tokens per second per GPU, if the line has run."""


def forecasts(visit: str) -> list[Forecast]:
    """Return the runs of a visit's bench lines, in order; other lines have no forecast.

    Raises:
        ValueError: there is no such visit.
        LaunchError: a profile's flags are refused.
    """
    found: list[Forecast] = []
    for line, words in visit_lines(visit).items():
        if words[0] == "speed":
            options = bench_options.arguments(["tokenizer", "results", *words[1:]])
            found += _line(visit, line, options)
    return found


def _line(visit: str, line: str, options: argparse.Namespace) -> Iterator[Forecast]:
    host = ["NVIDIA H200"] * int(visit.removesuffix("gpu"))
    bench, profiles = bench_options.bench(options, host), bench_options.profiles(options)
    seen = measured(results.read(), f"bench-{visit}-{line}")
    rates: dict[str, Any] = {}
    for profile in profiles:
        parsed = bench_profiles.recipe(profile.values(), bench.own_flags)
        training = bench_profiles.job(parsed, bench.gpus)
        rates[profile.name] = (
            training,
            memory.predict(bench.model_config, training),
            speed.predict(bench.model_config, training, bench.gpu, ONE_NODE, SPREAD_OF_LENGTHS),
        )
    last = rates[profiles[-1].name][2].tokens_per_second_per_gpu if options.against else None
    for name, (training, needs, pace) in rates.items():
        compared = last is not None and name != profiles[-1].name
        yield Forecast(
            visit=visit,
            line=line,
            run=name,
            layers=options.layers,
            gpus=bench.gpus,
            packs=training.global_batch_size,
            memory=needs,
            speed=pace,
            against=pace.tokens_per_second_per_gpu / last if compared and last else None,
            measured=seen.get(name),
        )


def measured(found: Mapping[str, results.Record], name: str) -> dict[str, float]:
    """Return tokens per second per GPU by run; empty if the line has not run."""
    runs = found.get(name, {"runs": {}})["runs"]
    return {
        name: float(run["tokens_per_second_per_gpu"]["median"])
        for name, run in runs.items()
        if run.get("steps")
    }


def table(rows: Sequence[Forecast]) -> str:
    return markdown.table(COLUMNS, [_row(row) for row in rows])


def _row(row: Forecast) -> tuple[str, ...]:
    fits = row.memory.total <= gpu_models.by_name(CARD).memory_gib
    return (
        row.visit,
        row.line,
        row.run,
        str(row.layers),
        str(row.gpus),
        str(row.packs),
        f"{row.memory.total:.1f}" + ("" if fits else ", too many"),
        f"{row.memory.host:.0f}",
        f"{row.speed.step_seconds:.1f} ({row.speed.low:.1f} to {row.speed.high:.1f})",
        f"{row.speed.tokens_per_second_per_gpu:,.0f}",
        "" if row.against is None else f"{row.against:.1f} x",
        "" if row.measured is None else f"{row.measured:,.0f}",
    )


def block() -> str:
    return table([row for visit in VISITS for row in forecasts(visit)])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench forecast")
    parser.add_argument("--write", action="store_true", help="into values/FIGURES.md")
    options, made = parser.parse_args(words), block()
    print(made)
    if options.write:
        text = markdown.filled(PAGE.read_text(encoding="utf-8"), {"forecast": made})
        PAGE.write_text(text, encoding="utf-8")
    return 0
