"""A rehearsal on one node: begin, observe an attempt, and report (``launchers/rehearsal``)."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch
from launchers.exits import USER, Exit, FailureClass, LaunchError
from launchers.plan.footprint import kept, save_every
from launchers.rehearsal import result as report
from launchers.rehearsal.figures import Context, judge
from launchers.rehearsal.host_samples import sampling
from launchers.rehearsal.measured import Loaded, gather, has_resumed
from launchers.rehearsal.rehearsal import KILL_RECORD, Rehearsal, is_continued
from launchers.storage import disk
from launchers.system import lookup
from launchers.system.atomic_file import known_object, read_object, replace

REHEARSAL = Rehearsal()


def begin(launch: Launch, digest: str) -> None:
    """Remove the files of an earlier rehearsal (on rank 0), unless this start continues it.

    Nothing happens without ``launch.rehearse``.

    Raises:
        LaunchError: IO if the storage does not answer, or the progress of before is torn.
    """
    work = launch.work
    if not launch.rehearse:
        return
    before = known_object(work.progress, f"remove {work.home} to rehearse from the beginning")
    if is_continued(before, digest):
        return
    for path in lookup.matching(work.home, "*"):
        if work.lock.name not in path.name:  # nor the files by which a lock changes hands
            disk.remove(path)


def recipe_of(launch: Launch, recipe: Recipe) -> Recipe:
    """Return the recipe that is trained: in a rehearsal, that of a few steps."""
    return REHEARSAL.recipe(recipe) if launch.rehearse else recipe


@contextmanager
def observing(launch: Launch, folder: Path) -> Iterator[Mapping[str, str]]:
    """Measure this node's memory while an attempt trains; yield variables for its processes.

    Does nothing without ``launch.rehearse``.

    Raises:
        LaunchError: in place of the failure of the process that killed itself, the reason.
    """
    if not launch.rehearse:
        yield {}
        return
    work, rank = launch.work, launch.place.rank
    variables = REHEARSAL.environment(launch.place)
    record = work.home / KILL_RECORD
    was_killed = lookup.exists(record)
    try:
        with sampling(folder, rank, work.checkpoints):
            yield variables
    except LaunchError as error:
        is_planned = bool(variables) and lookup.exists(record) and not was_killed
        if not is_planned or has_resumed(work) or error.code in USER:
            raise
        raise LaunchError(
            Exit.PEER,
            f"the rehearsal killed a training process after step {REHEARSAL.steps}, as planned",
            f"nothing: the next attempt resumes from checkpoint-{REHEARSAL.save_at}",
            id="rehearsal-kill",
            failure_class=FailureClass.INFRA,
        ) from error


def finish(launch: Launch, recipe: Recipe, digest: str) -> None:
    """Read the export back, report, and remove checkpoints and export (on rank 0).

    Nothing happens without ``launch.rehearse``.

    Raises:
        LaunchError: CONFIG, naming the figures with which the long run would fail.
    """
    if not launch.rehearse:
        return
    work = launch.work
    document = read_object(work.export_test) or {"problems": ["no export was read back"]}
    read_back = Loaded(**{**document, "problems": tuple(document["problems"])})
    measured = gather(work, REHEARSAL, read_back)
    context = Context(
        rehearsal=REHEARSAL,
        plan=read_object(work.plan),
        grace_seconds=launch.grace,
        save_every=save_every(recipe),
        kept=kept(recipe),
    )
    figures, unknown = judge(measured, context)
    found = report.document(launch.run, digest, time.time(), measured, figures, unknown)
    path = launch.rehearsal_report
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, json.dumps(found, indent=1) + "\n")
    logs.info("rehearsal report", path=path, verdict=found["verdict"])
    print("\n".join(report.table(found)), flush=True)
    for path in (work.checkpoints, work.export):  # logs, metrics and the plan stay
        disk.remove(path)
    failed = [figure for figure in figures if figure.verdict == "fail"]
    if failed:
        raise LaunchError(
            Exit.CONFIG,
            "the long run would fail: "
            + "; ".join(f"{figure.id}: {figure.measured} ({figure.against})" for figure in failed),
            " | ".join(figure.remedy for figure in failed),
            id="rehearsal-failed",
        )
