"""One run on one node: ``lead`` is what rank 0 does, ``follow`` what every other rank does."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from launchers import logs, version
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.config.workspace import Workspace
from launchers.evaluation.benchmarks import measure, refuse_unknown
from launchers.evaluation.evaluations import Measure
from launchers.exits import Exit, LaunchError, during
from launchers.flags.command_line import Inputs
from launchers.gang.leader import Leader
from launchers.gang.member import Member
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Hello, StartMessage
from launchers.inputs.paths import inputs_of
from launchers.inputs.preconditions import check_model, check_recipe
from launchers.preflight.preflight import Preflight
from launchers.preflight.probes import with_gpus
from launchers.progress.exporter import exporting
from launchers.progress.notify import notifying
from launchers.progress.progress import Progress, beating, reporting
from launchers.progress.startup import following
from launchers.progress.training import log_held_out, log_rows, summarising
from launchers.rehearsal.read_back import refuse_choice, refuse_differing, summary
from launchers.run import kernel_cache, plan_file, rehearse
from launchers.run.prefetch import prefetching
from launchers.run.prepare import Prepared, prepare
from launchers.run.restart import Restarts
from launchers.stages.attempt import Attempt, StartDecision, decide_start, settle
from launchers.stages.attempt_record import begin, recording
from launchers.stages.export import finish
from launchers.stages.resume import verify_share
from launchers.stages.script import run_script
from launchers.stages.statement import Origin
from launchers.stages.train import train
from launchers.standby.kept_memory import KeptMemory
from launchers.standby.standby import Standby
from launchers.storage import node_disk, run_lease
from launchers.storage.checkpoint import Checkpoint, read_checkpoint
from launchers.storage.visible import VISIBILITY_TIMEOUT_SECONDS, await_outputs
from launchers.system.atomic_file import known_object
from launchers.system.host_memory import available
from launchers.system.process import Stopped
from launchers.system.remedies import STORAGE_REMEDY

CASCADE_DELAY_SECONDS = 2.0
"""Time that a rank waits before it exits because of a peer: Kubernetes must see the peer's exit
code first, because the first failed pod decides what the JobSet does."""
JOIN_GRACE_SECONDS = 60.0
"""Time that the peers have to join after rank 0's stages, even if these outlasted the deadline."""
POLL_INTERVAL_SECONDS = 0.5


def run(settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
    """Run this node's part.

    Raises:
        LaunchError: why the run ended without success.
    """
    deadline = time.monotonic() + settings.gang.deadline
    settings = with_gpus(settings, env)
    if settings.launch.place.rank == 0:
        lead(settings, recipe, env, deadline)
    else:
        follow(settings, recipe, env, deadline)


def lead(settings: Settings, recipe: Recipe, env: Mapping[str, str], deadline: float) -> None:
    """Run rank 0, the only one of this run: check, prepare, gather the gang, train, export."""
    launch, reports = settings.launch, settings.reports
    exported = exporting(launch.work.progress, reports.metrics_port)
    with run_lease.alone(launch), exported, notifying(launch, reports):
        rank = _Lead.checked(settings, recipe, env)
        progress, leader = rank.progress, rank.leader
        if launch.local is not None and not recipe.saves_in_background:
            why = "no checkpoint is written in background"
            logs.warning("localCheckpoints is not used", why=why)
        with leaving(leader), reporting(progress, leader.peers), beating(progress):
            prepared = rank.prepare()
            trained = rank.settle()
            leader.announce("train")
            progress.begin("train")
            with during("train"):
                decision, start = rank.gather(trained, prepared, deadline)
                if decision.skip:
                    rank.pass_over(decision.skip)
                else:
                    last = rank.train(trained, decision.attempt, start)
                    rank.export(trained, prepared, decision, last)
                rehearse.finish(launch, recipe, rank.preflight.own.digest)
            progress.finish("succeeded", leader.peers.agreement.ends)


@dataclass(frozen=True)
class _Lead:
    """Rank 0 of a run that may work, and what it does, one method after the other."""

    preflight: Preflight
    recipe: Recipe
    inputs: Inputs
    progress: Progress
    leader: Leader

    @classmethod
    def checked(cls, settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> Self:
        """Refuse what cannot work, before anything is downloaded."""
        launch, hello = settings.launch, Hello.of_run(settings, recipe)
        rehearse.begin(launch, hello.digest)
        if settings.training.budget.gpu_minutes < math.inf:
            record = launch.work.progress
            known_object(record, "restore it; without it the budget is counted from 0 again")
        progress = Progress(path=launch.work.progress, run=launch.run, digest=hello.digest)
        preflight = Preflight.of_run(settings, recipe, hello, env)
        with reporting(progress):
            inputs = inputs_of(settings, recipe)
            check_recipe(settings, recipe, inputs)
            refuse_choice(env)
            refuse_unknown(launch, env)
            preflight.local(plan_file.record(settings, recipe, inputs, env))
            progress.mark("checks")
            leader = Leader(hello, settings.gang.port)
            leader.peers.agreement.over = partial(_spent, settings, progress)
            run_lease.before_end(leader.give_up)
        return cls(preflight, recipe, inputs, progress, leader)

    def prepare(self) -> Prepared:
        """Clone, download, convert, while the peers join; judge the model as soon as possible."""
        settings, env = self.preflight.settings, self.preflight.env
        recipe, inputs = self.recipe, self.inputs
        verdict = check_model(settings, recipe, inputs, may_ask=True)
        if verdict.model_config is not None:  # known before the download: complete the plan
            plan_file.record(settings, recipe, inputs, env, verdict.model_config)
        check_later = partial(check_model, settings, recipe, inputs, may_ask=False)
        prepared = prepare(
            settings,
            recipe,
            inputs,
            env,
            self.progress,
            announce=self.leader.announce,
            judge_model=None if verdict.is_final else check_later,
        )
        self.preflight.space(plan_file.record(settings, recipe, inputs, env))
        self.progress.outputs = [list(output) for output in prepared.outputs]
        return prepared

    def settle(self) -> Recipe:
        """Return the recipe that is trained, once the model is there."""
        settings, preflight = self.preflight.settings, self.preflight
        sizes, _ = plan_file.read_sizes(self.inputs.model / "config.json")
        trained = rehearse.recipe_of(settings.launch, self.recipe)
        trained, self.progress.prompts = settle(settings, trained, sizes, preflight.gpu_name)
        return trained

    def gather(
        self, trained: Recipe, prepared: Prepared, deadline: float
    ) -> tuple[StartDecision, StartMessage]:
        """Decide what is trained, and start the gang once every rank is ready for it."""
        settings, leader = self.preflight.settings, self.leader
        launch, checkpoints = settings.launch, settings.launch.work.checkpoints
        joined_by = max(deadline, time.monotonic() + JOIN_GRACE_SECONDS)
        if any(node_disk.pending(checkpoints)):
            node_disk.push(launch.local, checkpoints)
            leader.await_joined(joined_by)  # a rank joins when it has copied its part
            node_disk.finish(checkpoints)
        run_lease.check()
        decision = decide_start(settings, trained, prepared.digests)
        folder = decision.attempt.folder(launch.work)
        with self.preflight.meeting(folder, decision.skip) as (question, judge):
            start = decision.message(prepared.outputs, question)
            once = bool(trained.prompt_once)
            start = replace(start, lease=str(run_lease.current() or ""), prompt_once=once)
            joined_by = max(joined_by, time.monotonic() + JOIN_GRACE_SECONDS)
            leader.start(start, joined_by, judge)
        return decision, start

    def train(self, trained: Recipe, attempt: Attempt, start: StartMessage) -> Attempt:
        """Train until all steps are done or a rank ends; return the attempt that completed it."""
        work, progress = self.preflight.settings.launch.work, self.progress
        begin(attempt.folder(work), attempt.resume)
        progress.begin_training(attempt.number)
        progress.mark("gang")
        with summarising(progress, work.metrics, measure=Measure.of(self.recipe)):
            peers = self.leader.peers
            return _train(self.preflight, trained, self.inputs, attempt, start, peers, progress)

    def pass_over(self, why: str) -> None:
        """End the train stage without training; what is up to date is judged as after training."""
        launch = self.preflight.settings.launch
        logs.info("train skipped", why=why)
        state = "up to date" if why == "up to date" else "skipped"
        if state == "up to date":
            refuse_differing(launch)
            measure(launch, self.preflight.env)
        self.progress.end(state, why)

    def export(
        self, trained: Recipe, prepared: Prepared, decision: StartDecision, last: Attempt
    ) -> None:
        """Export the last or best checkpoint in Hugging Face format, and measure it."""
        log_rows(self.progress.training)
        log_held_out(self.progress.training)
        settings, env = self.preflight.settings, self.preflight.env
        launch, own = settings.launch, str(settings.training.budget)
        ends = self.leader.peers.agreement.ends  # why before the last step; empty if after it
        identity = {**decision.identity, **({"budget": own} if ends else {})}
        digest = version.own_digest(settings.gang.launcher_digest)
        model, image = self.inputs.model, launch.image
        origin = Origin(outputs=prepared.outputs, model=model, image=image, launcher=digest)
        finish(launch, trained, identity, last.folder(launch.work), origin, env)
        found = (ends, summary(launch.work.export_test), "" if ends else measure(launch, env))
        self.progress.end("done", "; ".join(filter(None, found)))


def _spent(settings: Settings, progress: Progress, needs: float) -> str:
    held = (progress.held + needs) * settings.launch.world_size
    return settings.training.budget.over(held, time.time() + needs)


def follow(settings: Settings, recipe: Recipe, env: Mapping[str, str], deadline: float) -> None:
    """Run any other rank: check, join the gang, train."""
    # Check: the same as rank 0, so that this pod's log names the mistake, too.
    launch, inputs = settings.launch, inputs_of(settings, recipe)
    check_recipe(settings, recipe, inputs)
    hello = Hello.of_run(settings, recipe)
    preflight = Preflight.of_run(settings, recipe, hello, env)
    preflight.local()
    node_disk.push(launch.local, launch.work.checkpoints)

    # Join: wait until rank 0 has prepared the run, verify that this node sees its outputs.
    member = Member(hello, launch.place.master_addr, settings.gang.port, deadline)
    with leaving(member):
        start = member.await_start_message()
        if not start.skip:
            await_outputs(start.outputs)
        resume = _await_checkpoint(launch.work, start.resume)
        if resume is not None and not start.skip:
            seconds, place = settings.training.verify_seconds, launch.place
            verify_share(resume, seconds, rank=place.rank, nodes=place.nodes, attempt=start.attempt)
        generation = member.ready(preflight.answer(start.preflight))
        if start.skip:
            logs.info("train skipped", why=start.skip)
            return

        # Train: until all steps are done or a rank ends.
        attempt = Attempt(number=start.attempt, resume=resume)
        logs.info("gang started", generation=generation)
        with during("train"):
            trained = replace(rehearse.recipe_of(launch, recipe), prompt_once=start.prompt_once)
            _train(preflight, trained, inputs, attempt, start, member.peers)


def _train(
    preflight: Preflight,
    recipe: Recipe,
    inputs: Inputs,
    attempt: Attempt,
    start: StartMessage,
    peers: PeerMonitor,
    progress: Progress | None = None,
) -> Attempt:
    """Measure GPUs and network with the gang, then train on this node.

    A failure that may pass is followed by a restart in place, another attempt of the same gang.

    Only rank 0 has a ``progress``, to which the phases of the start are written.

    Returns:
        The attempt that completed the training.
    """
    settings, launch = preflight.settings, preflight.settings.launch
    work, rank = launch.work, launch.place.rank
    restarts = Restarts(preflight.own.name, settings, recipe, attempt, peers, progress)
    resumed = [attempt.resume.path] if attempt.resume and launch.local is None else []
    hang, standby = settings.training.hang, Standby(is_wanted=settings.training.standby)
    keeps = settings.training.restarts_in_place > 0 and recipe.saves_in_background
    kept = KeptMemory(launch.nproc_per_node if keeps else 0)
    prefetched = prefetching([*resumed, inputs.mcore or inputs.model])
    with prefetched, closing(standby), closing(kept):
        with recording(work, attempt.folder(work), rank):
            preflight.collective(attempt.folder(work), start.preflight, peers)
            if progress:
                progress.mark("preflight")
            kernels = kernel_cache.kernels(settings, preflight.smi, preflight.env)
            env = {**preflight.env, **kernels.env, **kept.env, run_lease.VARIABLE: start.lease}
        while True:
            folder = attempt.folder(work)
            follow_start = following(progress, folder, launch.world_size, kernels.save)
            observed = rehearse.observing(launch, folder)
            try:
                with recording(work, folder, rank), follow_start, observed as more:
                    near = _near(settings, attempt, is_first=attempt.number == start.attempt)
                    inside = {**env, **more}
                    if recipe.script:
                        run_script(launch, recipe, inputs, near, peers, inside)
                    else:
                        train(launch, hang, recipe, inputs, near, peers, inside, standby)
            except LaunchError as error:
                again = restarts.next(error, standby.pids)
                resume = _await_checkpoint(work, again.resume)
                attempt = Attempt(number=again.attempt, resume=resume)
                kept.make_room(available())
            else:
                peers.restarts.close()
                if launch.local is not None:
                    node_disk.clear(launch.local)
                return attempt


def _near(settings: Settings, attempt: Attempt, *, is_first: bool) -> Attempt:
    """Let an attempt read its checkpoint from this node's disk, where that has it.

    Later attempts of a pod find what was written in the page cache, and compare nothing.
    """
    launch, found = settings.launch, attempt.resume
    if launch.local is None or found is None or not found.has_megatron_state:
        return attempt
    seconds = settings.training.verify_seconds if is_first else 0
    return replace(attempt, resume=node_disk.nearest(launch.local, found, seconds))


def _await_checkpoint(
    work: Workspace, name: str, *, timeout: float = VISIBILITY_TIMEOUT_SECONDS
) -> Checkpoint | None:
    """Wait for the checkpoint that rank 0 has chosen: NFS may show it late."""
    if not name:
        return None
    stop = time.monotonic() + timeout
    while (found := read_checkpoint(work.checkpoints / name)) is None:
        if time.monotonic() >= stop:
            raise LaunchError(
                Exit.IO,
                f"{work.checkpoints / name} is not complete on this node after {timeout:.0f} s",
                STORAGE_REMEDY,
                id="checkpoint-incomplete",
            )
        time.sleep(POLL_INTERVAL_SECONDS)
    return found


@contextmanager
def leaving(gang: Leader | Member) -> Iterator[None]:
    """Leave the gang at the end of the block, with this rank's exit code and cause."""
    try:
        yield
    except LaunchError as error:
        gang.leave(error.code, error.cause)
        if error.code in (Exit.PEER, Exit.TERMINATED) and gang.peers.loss is not None:
            time.sleep(CASCADE_DELAY_SECONDS)
        raise
    except Stopped as stopped:
        gang.leave(Exit.TERMINATED, str(stopped))
        raise
    except BaseException as error:
        gang.leave(Exit.PEER, repr(error))
        raise
    gang.leave(Exit.OK, "")
