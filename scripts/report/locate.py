"""Find a run for a report or bundle: where its files are mounted, otherwise through its pods."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from launchers.config.workspace import Workspace
from launchers.state.contents import is_name
from scripts.doctor.api import JOBSETS
from scripts.observe.changes import changes
from scripts.observe.cluster import gather
from scripts.observe.command import Target, observe
from scripts.observe.local_copy import Copy, copied
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import Problem
from scripts.report import reading
from scripts.why.reasons import missing_run

MOUNTED = (Source.AUTO, Source.MOUNT)


@contextmanager
def located(target: Target, patterns: Sequence[str], cut: int = 0) -> Iterator[Copy]:
    """Find a run's files; a copy of them ends with the block.

    ``run`` is a name or the path of a folder; ``patterns`` and ``cut``: see `copied`.

    Raises:
        Problem: it is neither mounted nor can be read through a pod.
    """
    absent = f"{target.run!r}: its workspace is not mounted"
    if not is_name(target.run) and target.source not in MOUNTED:
        raise Problem(f"{target.run[:100]!r} is not the name of a run, such as dpo-42")
    if target.source in MOUNTED:
        try:
            work = reading.find(target.run, target.workspace or Path())
        except Problem as problem:
            if target.source is Source.MOUNT or not is_name(target.run):
                raise
            absent = str(problem)
        else:
            yield Copy(work=work, how=str(work.home))
            return
    with ExitStack() as stack:
        try:
            api = target.connect()
            view = View(gather(api, target.run, queue=False))
            if not view.jobset:
                raise missing_run(view)
            found = stack.enter_context(copied(api, view, patterns, source=target.source, cut=cut))
        except Problem as problem:
            raise type(problem)(f"{absent}; through the cluster: {problem}") from None
        yield found


def changed(target: Target, work: Workspace) -> list[str]:
    """Return what differs between a run's files and what is installed; empty without a cluster."""
    if target.source is Source.MOUNT or not is_name(target.run):
        return []
    try:
        api = target.connect()
        if not api.get(JOBSETS.path(api.namespace, target.run)).found:
            return []
        mounted = replace(target, workspace=work.root, source=Source.MOUNT)
        return changes(observe(mounted, api, queue=False, reader=False)[0])
    except Problem:
        return []
