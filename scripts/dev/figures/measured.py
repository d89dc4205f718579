"""Measurements of the bench: the results ``bench-*`` of ``tests/bench/results``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.dev import results
from scripts.helm import ROOT

Figures = dict[str, Any]
WHOLE = (48, 128)
"""Layers and their experts of the whole model."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run with measured steps."""

    name: str
    result: str
    link: str
    gpu_model: str
    gpus: int
    layers: int
    experts: int
    """Experts per layer; fewer than the model's stand for one GPU's share."""
    files: tuple[str, ...]
    packs: int
    """Microbatches of a step, over all replicas."""
    figures: Figures
    """As ``tests/bench/speed/run.py`` wrote them."""
    against: float | None = None
    """Its tokens per second over those of the run that it was compared with."""
    engine: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether it ran the whole model."""
        return (self.layers, self.experts) == WHOLE

    @property
    def rate(self) -> float:
        """Return the median of tokens per second and GPU."""
        return float(self.figures["tokens_per_second_per_gpu"]["median"])

    @property
    def overall(self) -> float | None:
        """Return all tokens over all seconds, per GPU; None where the bench did not write them."""
        found = self.figures.get("overall")
        return float(found["tokens_per_second_per_gpu"]) if found else None

    @property
    def over_one_epoch(self) -> float | None:
        """Return the same with the reference's pass over one epoch; None if not measured."""
        if self.figures.get("reference") == "online":
            return self.overall
        cost = self.figures.get("reference_pass") or {}
        found = cost.get("over_one_epoch")
        return None if found is None else float(found)

    @property
    def is_bare(self) -> bool:
        """Return whether upstream ran without the launcher's features."""
        return bool(self.figures["profile"].get("kept") == [])


def runs(folder: Path = results.FOLDER) -> list[Run]:
    """Return all runs with measured steps, in the order of results and of the bench."""
    found = results.read(folder, "bench-").items()
    return [run for name, record in found for run in of(name, record)]


def of(result: str, record: Figures) -> list[Run]:
    """Return the runs with measured steps of one result."""
    done = {each: run for each, run in record["runs"].items() if run.get("steps")}
    other = done.get(record.get("against") or "")
    return [_run(result, record, each, run, other) for each, run in done.items()]


def _run(
    result: str,
    record: dict[str, Any],
    name: str,
    run: dict[str, Any],
    other: dict[str, Any] | None,
) -> Run:
    flags = run["flags"]
    ratio = None
    if other is not None and other is not run:
        rates = [each["tokens_per_second_per_gpu"]["median"] for each in (run, other)]
        ratio = rates[0] / rates[1]
    return Run(
        name=name,
        result=result,
        link=results.link(result, record),
        gpu_model=record["card"],
        gpus=run["world"],
        layers=record["layers"],
        experts=record.get("experts", WHOLE[1]),
        files=tuple(run["profile"]["files"]),
        packs=int(flags["global_batch_size"]) // int(flags.get("micro_batch_size", 1)),
        figures=run,
        against=ratio,
        engine=record.get("versions", {}).get("transformer-engine", ""),
    )


def best(found: Sequence[Run], *, gpu_model: str, gpus: int, file: Path) -> Run | None:
    """Return the fastest run of a profile with the whole model; None if none was measured."""
    wanted = str(file.relative_to(ROOT))
    fitting = [
        run
        for run in found
        if run.is_whole
        and (run.gpu_model, run.gpus) == (gpu_model, gpus)
        and run.files[-1:] == (wanted,)
    ]
    return max(fitting, key=lambda run: run.rate, default=None)
