"""Starts of an ablation: one for all variants unless one ends it, one per ``starts`` entry."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu.ablation import figures as ablation_figures
from tests.gpu.ablation import pin, steps, table
from tests.gpu.ablation.plan import AGAIN, BASELINE, Choice, Segment, Start
from tests.gpu.ablation.steps import Count
from tests.gpu.bench import command as bench
from tests.gpu.bench import figures as bench_figures
from tests.gpu.bench import read as bench_read
from tests.gpu.bench import run as bench_run
from tests.gpu.bench.profiles import Profile
from tests.gpu.bench.shared import PLUGINS, Bench, Extras
from tests.gpu.record import write

PLUGIN = PLUGINS / "swift_ablation.py"
STILL = {
    # constant weights: each loss must be ln 2
    **{"lr": 1e-12, "min_lr": 0, "rpo_alpha": None},
    # epochs of few pairs end within measured steps: start no workers there
    "dataloader_persistent_workers": True,
}
KEPT = (
    *("ended", "exit", "finished", "out_of_memory", "wall_s", "start", "first_loss", "gpu"),
    *("load_balancing_loss", "reference", "flags", "env", "command", "each_step", "log", "tail"),
)
"""Fields of the bench's result that the record keeps."""
Row = dict[str, Any]


def with_callback(given: Bench, segments: Sequence[Segment]) -> Bench:
    """Return a bench whose run executes the segments."""
    extras = Extras(
        plugin=PLUGIN,
        callback="ablation",
        flags=STILL,
        variables={
            "ABLATION": steps.write(segments),
            "ABLATION_BUSES": pin.buses(),
        },
    )
    last = segments[-1].last if segments else 1
    first = min(last, bench_figures.WARM_UP)
    return dataclasses.replace(given, steps=last - first, warm_up=first, extras=extras)


def changed(profile: Profile, start: Start) -> Profile:
    """Return the profile with the changes of a start."""
    return dataclasses.replace(profile, changes={**profile.changes, **start.changes})


def failed(segments: Sequence[Segment], complete: int) -> Segment:
    """Return the segment of the first incomplete step."""
    return next(each for each in segments if each.last > complete)


def whose(name: str, suffix: str) -> str:
    """Return the name of a row: each start has baselines of its own."""
    return name + suffix if name in (BASELINE, AGAIN) else name


@dataclass(kw_only=True)
class Ablation:
    """The selection and the results so far."""

    bench: Bench
    profile: Profile
    choice: Choice
    count: Count
    record: dict[str, Any]
    path: Path
    """Of the record."""
    limit: float
    """Seconds of one start."""
    stop: float
    """Deadline of all starts (``time.monotonic``)."""
    rows: dict[str, Row] = field(default_factory=dict)

    def measure(self) -> None:
        """Measure the variants in as few starts as possible, then each entry of ``starts``."""
        left: Choice | None = self.choice
        number = 1
        while left is not None and self.left() > 0:
            left = self.variants(left, f" ({number})" if number > 1 else "")
            number += 1
        for start in self.choice.starts:
            if self.left() > 0:
                self.start(start)
            else:
                self.rows[start.name] = {"ended": "no time left"}
        for variant in self.choice.variants:
            self.rows.setdefault(variant.name, {"ended": "not reached"})
        self.write()

    def left(self) -> float:
        """Return the time limit of the next start in seconds; 0 if it is too short to load."""
        left = self.stop - time.monotonic()
        return min(self.limit, left - bench.ROOM) if left >= bench.SHORTEST else 0

    def variants(self, choice: Choice, suffix: str) -> Choice | None:
        """Measure variants in one start; return the variants after one that ended it."""
        segments = steps.lay_out(choice, self.count)
        run, complete = self.train(self.profile, segments, suffix)
        if run["finished"]:
            return None
        at = failed(segments, complete)
        if run["ended"] == "exited":
            why = "out of memory" if run["out_of_memory"] else f"ended with exit {run['exit']}"
        else:
            why = f"cut: {run['ended']}"
        self.rows.setdefault(whose(at.name, suffix), {})["ended"] = f"{why} in {at.role}"
        left = steps.after(choice, at.name)
        ended_itself = run["ended"] == "exited" and at.role == "time"
        return left if ended_itself and left.variants else None

    def start(self, start: Start) -> None:
        """Measure an entry of ``starts`` with the steps of a baseline."""
        alone = dataclasses.replace(self.choice, variants=())
        segments = steps.lay_out(alone, self.count)
        run, _ = self.train(changed(self.profile, start), segments, f" with {start.name}")
        row = self.rows.pop(f"{BASELINE} with {start.name}", {})
        if not run["finished"]:
            row["ended"] = "out of memory" if run["out_of_memory"] else run["ended"]
        base = self.rows.get(BASELINE, {}).get("tokens_per_second_per_gpu")
        row.pop("times", None)
        if base and "tokens_per_second_per_gpu" in row:
            row["times"] = round(row["tokens_per_second_per_gpu"] / base, 4)
        self.rows[start.name] = row

    def train(
        self, profile: Profile, segments: Sequence[Segment], suffix: str
    ) -> tuple[dict[str, Any], int]:
        """Execute segments in one start; return the bench's result and the finished steps.

        Rows are read and written during the run: an interrupted visit keeps them.
        """
        given = with_callback(self.bench, segments)
        folder, done = bench_run.run_folder(given, profile), [0]
        ends = [each.last for each in segments]

        def look() -> None:
            complete = bench_read.ranks(folder).complete
            ended = sum(end <= complete for end in ends)
            if ended > done[0]:
                done[0] = ended
                self.read(folder, segments, suffix)

        run = bench_run.run(given, profile, limit=self.left(), look=look)
        self.record["runs"][profile.name + suffix] = {name: run.get(name) for name in KEPT}
        self.read(folder, segments, suffix)
        print(f"{profile.name}{suffix}: {run['ended']} after {run['wall_s']} s", run["tail"])
        for trace in folder.glob("trace-*.json.gz"):
            shutil.copy(trace, self.path.with_name(f"{self.path.stem}-{trace.name}"))
        return run, bench_read.ranks(folder).complete

    def read(self, folder: Path, segments: Sequence[Segment], suffix: str) -> None:
        """Add the measurements of a start so far to the record."""
        seen = bench_read.ranks(folder)
        files = sorted(folder.glob("ablation-*.jsonl"))
        callback_rows = [row for file in files for row in bench_read.lines(file)]
        found = ablation_figures.rows(seen, bench_read.logged(folder), callback_rows, segments)
        ablation_figures.compare(found)
        self.record["drift"][suffix.strip() or "first start"] = ablation_figures.drift(found)
        self.rows |= {whose(name, suffix): row for name, row in found.items()}
        self.write()

    def write(self) -> None:
        """Write the record, with the reason for each variant."""
        whys = {each.name: each.why for each in self.choice.variants}
        whys |= {each.name: each.why for each in self.choice.starts}
        self.record["rows"] = {
            name: {"why": whys[name], **row} if name in whys else row
            for name, row in self.rows.items()
        }
        write(self.path, self.record)

    def said(self) -> str:
        """Return the table and the problems."""
        drifts = [
            f"drift in {n}: {d:+.1%}" for n, d in self.record["drift"].items() if d is not None
        ]
        return "\n".join([table.table(self.rows), *drifts])
