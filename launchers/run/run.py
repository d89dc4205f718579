"""One run on one node: prepare or wait, start with the gang, train, export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError, during
from launchers.gang.hello import hello
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.protocol import Message
from launchers.inputs.model_check import check_model
from launchers.inputs.paths import inputs_of
from launchers.inputs.preconditions import check
from launchers.preflight.preflight import Preflight
from launchers.progress.progress import Progress, reporting
from launchers.progress.startup import following
from launchers.progress.training import telling
from launchers.run import kernel_cache, plan_file
from launchers.run.pipeline import prepare
from launchers.run.prefetch import prefetching
from launchers.stages.attempt import Attempt, decide
from launchers.stages.export import export
from launchers.stages.train import train
from launchers.storage.checkpoint import Checkpoint, read
from launchers.storage.visible import PATIENCE, await_outputs
from launchers.system.process import Stopped

CASCADE_DELAY = 2.0
"""Seconds that a rank waits before it ends because of a peer: Kubernetes must see the peer's
exit code first, because the first failed pod decides what the JobSet does."""


def run(settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Run this node's part.

    Raises:
        LaunchError: why the run ended without success.
    """
    deadline = time.monotonic() + settings.gang_deadline
    if settings.place.rank == 0:
        lead(settings, recipe, deadline, env)
    else:
        follow(settings, recipe, deadline, env)


def lead(settings: Settings, recipe: Recipe, deadline: float, env: Mapping[str, str]) -> None:
    """Run rank 0: prepare, start the gang, train, export."""
    work, own = settings.work, hello(settings, recipe)
    progress = Progress(path=work.progress, run=settings.run, digest=own.digest)
    preflight = Preflight(settings, recipe.backend, own, env)
    with reporting(progress):
        check(settings, recipe)
        preflight.local(plan_file.record(settings, recipe, env))
        progress.mark("checks")
        leader = Leader(own, settings.gang_port)
    with leaving(leader), reporting(progress, leader.bond):
        judged = check_model(settings, recipe, may_ask=True)
        if judged.shape is not None:  # seen before the download: the plan is whole by now
            plan_file.record(settings, recipe, env, judged.shape)
        later = None if judged.is_whole else partial(check_model, settings, recipe, may_ask=False)
        prepared = prepare(settings, recipe, work, progress, leader.announce, env, later)
        preflight.space(plan_file.record(settings, recipe, env))
        # how the reference is had changes no result: a run may go on the other way
        same = replace(recipe, reference="online")
        identity = {"recipe": same.digest, **prepared.digests()}
        progress.outputs = prepared.message()["outputs"]
        leader.announce("train")
        progress.begin("train")
        with during("train"):
            plan = decide(settings, work, identity)
            with preflight.meeting(plan.attempt.folder(work), plan.skip) as (question, judge):
                told = {**prepared.message(), **plan.message(), **question}
                joined_by = max(deadline, time.monotonic() + 60)  # the stages may have outlasted it
                leader.start(told, joined_by, judge)
            if plan.skip:
                logs.info("train skipped", why=plan.skip)
                progress.end("up to date" if plan.skip == "up to date" else "skipped", plan.skip)
            else:
                progress.begin_training(plan.attempt.number)
                progress.mark("gang")
                with telling(progress, work.metrics):
                    _train(preflight, recipe, plan.attempt, told, leader, progress)
                export(work, identity, holder=settings.pod)
                progress.end("done")
        progress.finish("succeeded")


def _train(
    preflight: Preflight,
    recipe: Recipe,
    attempt: Attempt,
    told: Message,
    gang: Leader | Member,
    progress: Progress | None = None,
) -> None:
    """Train on this node, as one of the gang; first its GPUs and the network are tried.

    Rank 0 has the ``progress`` and tells how the start went.
    """
    settings, work = preflight.settings, preflight.settings.work
    folder, inputs = attempt.folder(work), inputs_of(settings, recipe, work)
    resumed = [attempt.resume.path] if attempt.resume else []
    with prefetching([*resumed, inputs.mcore or inputs.model]):
        preflight.collective(folder, told, gang.bond)
        if progress:
            progress.mark("preflight")
        kernels = kernel_cache.kernels(settings, preflight.smi, preflight.env)
        env = {**preflight.env, **kernels.env}
        with following(progress, folder, settings.world_size, kernels.save):
            train(settings, recipe, inputs, work, attempt, gang.bond, env)


def follow(settings: Settings, recipe: Recipe, deadline: float, env: Mapping[str, str]) -> None:
    """Run any other rank: wait for rank 0, train."""
    check(settings, recipe)
    place, work = settings.place, settings.work
    own = hello(settings, recipe)
    preflight = Preflight(settings, recipe.backend, own, env)
    preflight.local()
    member = Member(own, place.master_addr, settings.gang_port, deadline)
    with leaving(member):
        plan = member.await_prepared()
        if not plan["skip"]:
            await_outputs(plan["outputs"])
        generation = member.ready(preflight.answer(plan))
        if plan["skip"]:
            logs.info("train skipped", why=plan["skip"])
            return
        attempt = Attempt(number=plan["attempt"], resume=_resume(work, plan["resume"]))
        logs.info("gang started", generation=generation)
        with during("train"):
            _train(preflight, recipe, attempt, plan, member)


def _resume(work: Workspace, name: str, *, patience: float = PATIENCE) -> Checkpoint | None:
    """Find the checkpoint that rank 0 has chosen, as late as NFS shows it.

    Raises:
        LaunchError: IO when this node does not see it whole.
    """
    if not name:
        return None
    stop = time.monotonic() + patience
    while (found := read(work.checkpoints / name)) is None:
        if time.monotonic() >= stop:
            raise LaunchError(
                Exit.IO,
                f"{work.checkpoints / name} is not whole on this node after {patience:.0f} s",
                "look at the workspace's storage",
            )
        time.sleep(0.5)
    return found


@contextmanager
def leaving(gang: Leader | Member) -> Iterator[None]:
    """Tell the gang how this rank ended, whatever the way."""
    try:
        yield
    except LaunchError as error:
        gang.leave(error.code, error.cause)
        if error.code in (Exit.PEER, Exit.TERMINATED) and gang.bond.loss is not None:
            time.sleep(CASCADE_DELAY)
        raise
    except Stopped as stopped:
        gang.leave(Exit.TERMINATED, str(stopped))
        raise
    except BaseException as error:
        gang.leave(Exit.PEER, repr(error))
        raise
    gang.leave(Exit.OK, "")
