"""The end of a run: when its saves, the model merged with an adapter and the export were complete.

A rehearsal removes its checkpoints and its export, so that ``Seals.look`` notes them while it runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.storage import marker
from launchers.storage.checkpoint import COMPLETE, merged
from launchers.system.atomic_file import read_object

EXPORT = f"export/{marker.NAME}"


@dataclass
class Seals:
    """The seals seen in the folder of a run, by their paths in it."""

    home: Path
    seen: dict[str, dict[str, float]] = field(default_factory=dict)
    """``sealed`` is a Unix time; ``from`` and ``to`` are those of the folder's safetensors, the
    first and the last to be written."""

    def look(self) -> None:
        found = (*self.home.glob(f"checkpoints/*/{COMPLETE}"), self.home / EXPORT)
        for path in found:
            name = path.relative_to(self.home).as_posix()
            if name in self.seen:
                continue
            try:
                times = [each.stat().st_mtime for each in path.parent.glob("*.safetensors")]
                note = {"sealed": path.stat().st_mtime}
            except FileNotFoundError:  # not there yet, or removed by now
                continue
            self.seen[name] = note | ({"from": min(times), "to": max(times)} if times else {})


def ending(home: Path, seen: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the seconds of a run's saves and of its end.

    Returns:
        ``stops_s``, for which each save but the last stopped training, by attempt and step; and
        seconds since the end of training: ``saved_s`` until the last checkpoint was sealed,
        ``merged_s`` until the last file of the merged model was written, ``exported_s`` until the
        export was complete; None for what was not seen. ``stages``, ``phases`` and
        ``restarts_in_place`` are those of ``progress.json``.
    """
    lines = _lines(home / "metrics.jsonl")
    rows = list(reader.of_kind(lines, Row))
    last = max((row.step for row in rows), default=0)
    ends = [each.time for each in reader.of_kind(lines, Evaluation) if each.step == last]
    trained = max((*(row.time for row in rows), *ends), default=None)
    folder = Path("checkpoints") / f"checkpoint-{last}"
    times = {
        "saved_s": seen.get(f"{folder}/{COMPLETE}", {}).get("sealed"),
        "merged_s": seen.get(f"{merged(folder)}/{COMPLETE}", {}).get("to"),
        "exported_s": seen.get(EXPORT, {}).get("sealed"),
    }
    progress = read_object(home / "progress.json")
    return {
        "stops_s": stops(rows, seen),
        **{
            name: None if trained is None or when is None else round(when - trained, 1)
            for name, when in times.items()
        },
        **{name: progress.get(name) for name in ("stages", "phases", "restarts_in_place")},
    }


def stops(rows: Iterable[Row], seen: Iterable[str]) -> dict[str, float]:
    """Return the seconds between each saved step and the next one, by ``attempt-step``.

    The first step of an attempt has none before it.

    >>> row = dict(total=4, time=0.0, seconds=1.0)
    >>> found = [Row(step=2, attempt=1, **row), Row(step=3, attempt=1, other_seconds=0.4, **row)]
    >>> stops(found, ["checkpoints/checkpoint-2/COMPLETE.json"])
    {'1-2': 0.4}
    """
    return {
        f"{row.attempt}-{row.step - 1}": round(row.other_seconds, 3)
        for row in rows
        if row.other_seconds and f"checkpoints/checkpoint-{row.step - 1}/{COMPLETE}" in seen
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
