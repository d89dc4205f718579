"""Measurements of a rehearsal, read from the files that its attempts have left."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.workspace import Workspace
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.progress import phases
from launchers.rehearsal import host_samples
from launchers.rehearsal.host_samples import Sample, Samples
from launchers.rehearsal.rehearsal import KILL_RECORD, Rehearsal
from launchers.storage import disk
from launchers.system.atomic_file import read_object


@dataclass(frozen=True, kw_only=True)
class Host:
    """Host memory of one rank, in bytes."""

    rank: int
    peak: int
    peak_at_save: int | None
    """From the end of the saved step to its complete checkpoint."""
    limit: int | None
    files: int | None = None
    """Files on a tmpfs at the peak: they count towards the limit, and are not in the plan."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The export after it was read back, see ``load_export.py``."""

    tensors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    model: str = ""
    """Class that loaded and ran it; empty for a model that is too large to do so in passing."""
    problems: tuple[str, ...] = ()
    compared: Mapping[str, Any] = field(default_factory=dict)
    """Its log-probabilities with the trainer's, see ``load_export.compare_pairs``."""
    not_compared: str = ""
    """Why they were not."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A rehearsal's measurements; None for what could not be measured."""

    killed_rank: int | None = None
    """Global rank of the training process that was killed."""
    resumed_from: int | None = None
    """Step of the checkpoint from which training continued after the kill."""
    restart_seconds: float | None = None
    """From the kill to the end of the next step."""
    gpu_gib: float | None = None
    """Peak reserved by PyTorch on the fullest GPU; without CUDA's context and NCCL's buffers."""
    gpu_limit_gib: float | None = None
    hosts: tuple[Host, ...] = ()
    step_seconds: float | None = None
    """Median without the first step of each attempt."""
    tokens_per_second_per_gpu: float | None = None
    """Of the same steps."""
    save_seconds: float | None = None
    """From the end of the saved step to a complete checkpoint, also where it is written in the
    background."""
    hold_seconds: float | None = None
    """For which the save stopped training, with what is logged between the two steps."""
    load_seconds: float | None = None
    """Megatron's load of the checkpoint."""
    checkpoint_bytes: int | None = None
    free_bytes: int | None = None
    """Free on the workspace once the rehearsal's own files are removed."""
    evaluation_seconds: float | None = None
    export: Loaded | None = None


def gather(work: Workspace, rehearsal: Rehearsal, export: Loaded | None) -> Measured:
    """Read the files of a rehearsal that has trained to its end."""
    found = _rows(work.metrics)
    kill = read_object(work.home / KILL_RECORD)
    killed_at = kill.get("time")
    first = _first_after(found, kill)
    samples = host_samples.read(work.attempts)
    window = _save(samples, found, rehearsal.save_at)
    usual = steady(found)
    evaluated = reader.read(work.metrics, Evaluation)
    folder = work.checkpoints / f"checkpoint-{rehearsal.save_at}"
    own, left = disk.held(work.checkpoints) + disk.held(work.export), disk.free(work.root)
    return Measured(
        killed_rank=kill.get("rank"),
        resumed_from=first.step - 1 if first else None,
        restart_seconds=None if first is None else round(first.time - kill["time"], 3),
        gpu_gib=max((row.reserved_gib for row in found if row.reserved_gib), default=None),
        gpu_limit_gib=_gpu_limit(found),
        hosts=tuple(hosts(samples, window)),
        step_seconds=statistics.median(row.seconds for row in usual) if usual else None,
        tokens_per_second_per_gpu=speed(usual),
        save_seconds=None if window is None else round(window[1] - window[0], 3),
        hold_seconds=_hold(found, rehearsal.save_at),
        load_seconds=_load_seconds(work.attempts, killed_at),
        checkpoint_bytes=disk.held(folder) or None,
        free_bytes=None if left is None else left + own,
        evaluation_seconds=evaluated[-1].seconds if evaluated else None,
        export=export,
    )


def has_resumed(work: Workspace) -> bool:
    """Return whether a step was trained again after the kill."""
    return _first_after(_rows(work.metrics), read_object(work.home / KILL_RECORD)) is not None


def steady(found: Iterable[Row]) -> list[Row]:
    """Return the rows without the first of each attempt, which compiles and fills caches."""
    kept, attempt = [], 0
    for row in found:
        if row.attempt == attempt:
            kept.append(row)
        attempt = row.attempt
    return kept


def speed(usual: Sequence[Row]) -> float | None:
    """Return the tokens of some steps over their seconds and GPUs; None if not counted."""
    counted = [row for row in usual if row.tokens]
    if not counted:
        return None
    seconds = sum(row.seconds * row.world for row in counted)
    return round(sum(row.tokens or 0 for row in counted) / seconds, 1)


def hosts(samples: Iterable[Samples], window: tuple[float, float] | None) -> list[Host]:
    """Return the memory of each rank over all its attempts.

    ``window`` is the save's, in Unix times; clocks of nodes may differ by a second.
    """
    found: dict[int, list[tuple[Sample, Sample | None]]] = {}
    for each in samples:
        peak = each.fullest()
        if peak is None:
            continue
        save = None if window is None else each.fullest(window[0] - 1, window[1] + 1)
        found.setdefault(each.rank, []).append((peak, save))
    return [_host(rank, readings) for rank, readings in sorted(found.items())]


def _host(rank: int, readings: Sequence[tuple[Sample, Sample | None]]) -> Host:
    """Return the memory of a rank from each attempt's fullest readings, of all and at the save."""
    peak = max((peak for peak, _ in readings), key=lambda each: each.used)
    saves = (save for _, save in readings if save is not None)
    save = max(saves, key=lambda each: each.used, default=None)
    return Host(
        rank=rank,
        peak=peak.used,
        peak_at_save=None if save is None else save.used,
        limit=peak.limit,
        files=peak.files,
    )


def _save(
    samples: Iterable[Samples], found: Iterable[Row], step: int
) -> tuple[float, float] | None:
    """Return when the save of a step began and was complete, as Unix times."""
    ends = [each.complete[step] for each in samples if step in each.complete]
    begins = [row.time for row in found if row.step == step and ends and row.time <= ends[0]]
    return (begins[-1], ends[0]) if begins else None


def _hold(found: Sequence[Row], step: int) -> float | None:
    """Return the seconds between the saved step and the next one of the same attempt."""
    pairs = zip(found, found[1:], strict=False)
    wanted = (step, step + 1, 0)
    both = (
        after
        for row, after in pairs
        if (row.step, after.step, after.attempt - row.attempt) == wanted
    )
    after = next(both, None)
    return after.other_seconds if after else None


def _first_after(found: Iterable[Row], kill: Mapping[str, Any]) -> Row | None:
    """Return the first row that was trained after the kill.

    A rank that was not killed may still write the row of the step before the kill.
    """
    if not kill:
        return None
    again = (row for row in found if row.time > kill["time"] and row.step < kill["step"])
    return next(again, None)


def _load_seconds(attempts: Path, killed_at: float | None) -> float | None:
    """Return the longest load of a checkpoint by a training process started after the kill."""
    if killed_at is None:
        return None
    found = [phases.read(path) for path in attempts.glob("*/phases-*.json")]
    loads = [
        phases.durations(each).get("checkpoint")
        for each in found
        if each.get("process", 0.0) > killed_at
    ]
    return max((each for each in loads if each is not None), default=None)


def _gpu_limit(found: Sequence[Row]) -> float | None:
    gpu = GPU_MODELS.get(found[-1].card or "") if found else None
    return gpu.memory_gib if gpu else None


def _rows(metrics: Path) -> list[Row]:
    """Return all rows in the order of the file: a step that was trained again has several."""
    try:
        lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return list(reader.of_kind(lines, Row))
