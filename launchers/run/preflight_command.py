"""``python3 -m launchers preflight``: the checks without a run, for people and for new nodes.

On one host nothing need be set; on several, NNODES, NODE_RANK and MASTER_ADDR, as for ``run``. The
report is in ``runs/preflight`` below DPO_WORKSPACE, else below the current folder.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace

from launchers import PACKAGE
from launchers.config.recipe import load
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError
from launchers.gang.hello import launcher_digest
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Hello
from launchers.preflight.preflight import Preflight
from launchers.run.run import leaving
from launchers.stages.attempt import next_attempt

DEFAULTS = {"DPO_RUN": "preflight", "DPO_WORKSPACE": "."}
"""What a run must set, and a person need not."""


def preflight(settings: Settings, env: Mapping[str, str]) -> None:
    """Check this host, or the gang that it is one of.

    Raises:
        LaunchError: what failed.
    """
    settings = replace(settings, workspace=settings.workspace.resolve())
    if "DPO_GPUS_PER_NODE" not in env:
        settings = replace(settings, gpus_per_node=_count(env))
    backend = load(settings.recipe).backend if settings.recipe.exists() else None
    checks = Preflight(settings, backend, _hello(settings), env)
    if settings.place.rank == 0:
        _lead(settings, checks)
    else:
        _follow(settings, checks)


def _hello(settings: Settings) -> Hello:
    return Hello(
        run=settings.run,
        rank=settings.place.rank,
        nodes=settings.place.nodes,
        digest=launcher_digest(PACKAGE),
        pod=settings.pod,
        node=settings.node,
    )


def _lead(settings: Settings, checks: Preflight) -> None:
    checks.local()
    leader = Leader(checks.own, settings.gang_port)
    attempt = next_attempt(settings.work)
    folder = attempt.folder(settings.work)
    with leaving(leader):
        with checks.meeting(folder) as (question, judge):
            prepared = {"attempt": attempt.number, **question}
            leader.start(prepared, time.monotonic() + settings.gang_deadline, judge)
        checks.collective(folder, prepared, leader.bond)


def _follow(settings: Settings, checks: Preflight) -> None:
    checks.local()
    deadline = time.monotonic() + settings.gang_deadline
    member = Member(checks.own, settings.place.master_addr, settings.gang_port, deadline)
    with leaving(member):
        prepared = member.await_prepared()
        member.ready(checks.answer(prepared))
        folder = settings.work.attempts / str(prepared["attempt"])
        checks.collective(folder, prepared, member.bond)


def _count(env: Mapping[str, str]) -> int:
    """Count the GPUs that CUDA would see here."""
    chosen = env.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len([word for word in chosen.split(",") if word.strip()])
    if shutil.which("nvidia-smi", path=env.get("PATH")) is None:
        return 0
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        raise LaunchError(
            Exit.PREFLIGHT, "nvidia-smi -L did not answer in 20 s", "look at the host's driver"
        ) from None
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
