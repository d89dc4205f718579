"""What a plan needs, in lines: memory, time, room on the workspace."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from launchers.plan.plan import Plan
from scripts.plan import bars
from scripts.plan.quantity import GIB, bytes_text, time_text
from scripts.plan.release import Release

BAR = 48
"""Characters of a bar."""
WIDTH = 70
"""Characters of a line beside the section's name, on a terminal of 80 columns."""
LINKS = {"nvlink": "NVLink"}
"""How links are called, but for those that have their own name."""

MERGES = {
    "last": "of the adapter; merged into a model of {size} beside the last one",
    "every": "of the adapter; merged into a model of {size} beside each",
    "never": "of the adapter; nothing is merged, the export is the adapter",
}
"""What is written beside an adapter's checkpoints, by ``Training.merges``."""


def memory(release: Release, plan: Plan) -> Iterator[str | Text]:
    """Yield the fullest GPU against the card, its parts, all stages, and the host's memory."""
    used = plan.memory
    if plan.training is None:
        return
    if used is None:
        yield Text(plan.unknown["memory"], "yellow")
        return
    items = bars.items_of(used)
    if plan.card is None:
        yield Text(f"{used.total:.1f} GiB a GPU, predicted; {plan.unknown['speed']}", "yellow")
    else:
        size = plan.card.memory_gib
        bar = bars.itemised(items, size, BAR)
        yield bar + Text(f" {used.total:.1f} of {size:.1f} GiB")
    yield from bars.legend(items, WIDTH)
    if len(used.per_stage) > 1:
        stages = " ".join(f"{total:.1f}" for total in used.per_stage)
        yield f"predicted for the fullest stage; all stages: {stages}"
    limit = release.pod.memory
    if limit is not None:
        bar = bars.plain(used.host, limit / GIB, BAR)
        yield bar + Text(f" {used.host:.0f} of {limit / GIB:.0f} GiB host")


def time(plan: Plan) -> Iterator[str | Text]:
    """Yield a step's time with its band, what of it is communication, and the whole run."""
    speed = plan.speed
    if plan.training is None:
        return
    if speed is None and plan.unknown["speed"] != plan.unknown.get("memory"):
        yield Text(plan.unknown["speed"], "yellow")
    if speed is not None:
        band = f"{time_text(speed.low)} to {time_text(speed.high)}"
        rate = f"{speed.tokens_per_second_per_gpu:,.0f} tokens/s/GPU, MFU {speed.mfu:.1%}"
        yield f"step {time_text(speed.step_seconds)} (predicted, {band}), {rate}"
        waits = [
            f"{LINKS.get(link, link)} {time_text(seconds)}"
            for link, seconds in speed.communication.items()
            if seconds > 0
        ]
        if waits:
            yield f"communication in it: {', '.join(waits)}"
    run = plan.duration
    if plan.length is None:
        yield Text(f"hours: {plan.unknown['length']}, give --pairs N", "yellow")
    elif run is not None:
        hours, low, high = (time_text(3600 * h) for h in (run.hours, run.low, run.high))
        whole = f"{hours} (predicted, {low} to {high}), {run.gpu_hours:,.0f} GPU-hours"
        yield f"{run.steps:,} steps: {whole}"
        yield f"from {plan.length.source}"
    if plan.training.precomputed:
        took = run and run.reference_hours
        before = f"{time_text(3600 * took)} (in it)" if took else "time not known, give --pairs N"
        yield f"reference: once before the first step, {before}; it pays from the second epoch"


def workspace(release: Release, plan: Plan) -> Iterator[str | Text]:
    """Yield the checkpoints and the room that they need."""
    files = plan.footprint
    if files is None:
        yield release.workspace
        return
    often = "once an epoch" if files.every is None else f"every {files.every} steps"
    lost = plan.lost_seconds
    cut = "" if lost is None else f"; a cut loses {time_text(lost)} at most"
    yield f"checkpoint of {bytes_text(files.checkpoint)} {often}{cut}"
    kept = "all" if files.kept is None else str(files.kept)
    needed = "without limit" if files.needed is None else bytes_text(files.needed)
    models = "model"
    if plan.training is not None and plan.training.tuner != "full":
        yield MERGES[files.merges].format(size=bytes_text(files.model))
        models = "models" if files.merged else "model"
    yield f"{release.workspace}: {needed} for the {models}, {kept} checkpoints and the next"
