"""The checks of GPUs and network without a run, e.g. for new nodes.

The command ``preflight`` needs no variable on one host; on several, NNODES, NODE_RANK and
MASTER_ADDR, as ``run`` does. The report is in ``runs/preflight`` below DPO_WORKSPACE, by default
the current folder. ``run`` with DPO_PREFLIGHT_ONLY (the chart's ``preflight.only``) checks the gang
of a run on its very nodes, and leaves the report in the run's folder.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launchers import logs, version
from launchers.config.recipe import Recipe
from launchers.config.recipe_file import load
from launchers.config.settings import Settings
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Hello, StartMessage
from launchers.preflight.preflight import Preflight
from launchers.preflight.probes import with_gpus
from launchers.progress.progress import Progress, reporting
from launchers.run.run import leaving
from launchers.stages.attempt import next_attempt


def with_defaults(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with defaults of settings that ``run`` requires."""
    return {"DPO_RUN": "preflight", "DPO_WORKSPACE": str(Path.cwd()), **env}


def preflight(settings: Settings, env: Mapping[str, str]) -> None:
    """Check this host, or the gang that it belongs to.

    Raises:
        LaunchError: the checks that failed.
    """
    workspace = settings.launch.workspace.resolve()
    settings = replace(settings, launch=replace(settings.launch, workspace=workspace))
    settings = with_gpus(settings, env)
    backend = load(settings.stages.recipe).backend if settings.stages.recipe.exists() else None
    hello = Hello.of_rank(settings.launch, version.own_digest(settings.gang.launcher_digest))
    checks = Preflight(settings, backend, hello, env)
    if settings.launch.place.rank == 0:
        _lead(settings, checks)
    else:
        _follow(settings, checks)


def preflight_of_run(settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Check the gang of a run, and end: nothing is downloaded or trained.

    Raises:
        LaunchError: the checks that failed.
    """
    hello = Hello.of_run(settings, recipe)
    checks = Preflight.of_run(settings, recipe, hello, env)
    if settings.launch.place.rank != 0:
        _follow(settings, checks)
        return
    progress = Progress(
        path=settings.launch.work.progress, run=settings.launch.run, digest=hello.digest
    )
    with reporting(progress):
        _lead(settings, checks)
        progress.finish("succeeded", "preflight.only")
    logs.info("preflight done, nothing is trained", why="DPO_PREFLIGHT_ONLY=1")


def _lead(settings: Settings, checks: Preflight) -> None:
    checks.local()
    leader = Leader(checks.own, settings.gang.port)
    attempt = next_attempt(settings.launch.work)
    folder = attempt.folder(settings.launch.work)
    with leaving(leader):
        with checks.meeting(folder) as (question, judge):
            start = StartMessage(attempt=attempt.number, preflight=question)
            leader.start(start, time.monotonic() + settings.gang.deadline, judge)
        checks.collective(folder, question, leader.peers)


def _follow(settings: Settings, checks: Preflight) -> None:
    checks.local()
    deadline = time.monotonic() + settings.gang.deadline
    member = Member(checks.own, settings.launch.place.master_addr, settings.gang.port, deadline)
    with leaving(member):
        start = member.await_start_message()
        member.ready(checks.answer(start.preflight))
        folder = settings.launch.work.attempts / str(start.attempt)
        checks.collective(folder, start.preflight, member.peers)
