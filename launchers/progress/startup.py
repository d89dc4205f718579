"""Follow the phases of the start while training runs; report them in ``progress.json`` and logs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from launchers import logs
from launchers.progress import phases
from launchers.progress.progress import Progress, quietly

POLL_SECONDS = 1.0
"""Seconds between two readings of the training's phases."""
SETTLED_TIMEOUT_SECONDS = 15.0
"""Time that the end of a run waits for ``settled``: the pod may be terminating."""


@contextmanager
def following(
    progress: Progress | None, folder: Path, world_size: int, settled: Callable[[], None]
) -> Iterator[None]:
    """Follow the start of the training that runs inside this context.

    ``settled`` is called once, aside, when all kernels of a step have been compiled.
    """
    ended = threading.Event()
    thread = threading.Thread(
        target=_follow, args=(progress, folder, world_size, settled, ended), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(SETTLED_TIMEOUT_SECONDS)


def _follow(
    progress: Progress | None,
    folder: Path,
    world_size: int,
    settled: Callable[[], None],
    ended: threading.Event,
) -> None:
    stepped, over = False, False
    while not over:
        over = ended.wait(POLL_SECONDS)
        ranks = [phases.read(folder / f"phases-{rank}.json") for rank in (0, world_size - 1)]
        near = ranks[0] if progress else ranks[1]  # of this node
        over = over or phases.SECOND_STEP in near
        is_first = phases.FIRST_STEP in near and not stepped
        stepped = stepped or is_first
        if progress and (over or is_first):
            _report(progress, ranks, is_first=is_first)
    if stepped:
        settled()


def _report(progress: Progress, ranks: list[dict[str, float]], *, is_first: bool) -> None:
    """Update the phases; after the first step log the seconds of each phase."""
    progress.note_phases(*ranks)
    quietly(progress.write)
    if not is_first:
        return
    seen = {n: t for n, t in progress.phases.items() if n != phases.SECOND_STEP}
    total = seen[phases.FIRST_STEP] - min(seen.values())
    took = {name: round(seconds, 1) for name, seconds in phases.durations(seen).items()}
    logs.info("first step", after=round(total, 1), **took)
