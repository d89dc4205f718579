"""The train stage: torchrun on this node, from its start to its exit code."""

import shlex
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from launchers import PACKAGE, logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch
from launchers.exits import USER, Exit, LaunchError
from launchers.flags import features
from launchers.flags.command_line import (
    Inputs,
    environment,
    flatten,
    program,
    torchrun,
    tracker_keys,
    training_flags,
)
from launchers.gang.peer_monitor import PeerMonitor
from launchers.hang import workspace_watch
from launchers.hang.settings import Hang
from launchers.hang.watch import HangWatch, early_end, watching
from launchers.metrics.trainer_log import last_step
from launchers.progress import trained
from launchers.stages.attempt import Attempt
from launchers.standby.standby import Command, Standby
from launchers.stop.watch import StopOnRequest, stopping
from launchers.storage import checkpoint, node_disk
from launchers.system import lookup, training_end
from launchers.system.failures import Verdict
from launchers.system.host_memory import oom_kills, oom_kills_since
from launchers.system.ms_swift import swift_folder
from launchers.system.process import Child, Stopped
from launchers.system.step_board import StepBoard
from launchers.upstream.record import ALLOW_VARIABLE

SAVED_END_SECONDS = 0.5
"""Time in which torchrun copies the last lines of its workers once they have saved and ended. In
any other case it is killed at once with its workers: they have nothing to save, and may hang."""
LOSS_REPORT_TIMEOUT_SECONDS = 35.0
"""Time in which a lost peer may report its end after the collective broke: its torchrun takes up to
30 s to end its other workers."""
SIGNLESS_SECONDS = 2.0
"""Time in which a lost peer may report its end if no log shows a broken collective: this node most
likely ended first."""
LONG_END_SECONDS = 1.0
"""An end of the training processes that takes longer is logged: the kernel frees a GPU's memory and
pinned memory."""
SETTLE_SECONDS = 1.0
"""Time in which torchrun may fail by itself when another rank has failed: what its workers have
logged counts, since a user error rules out a restart."""


def train(
    launch: Launch,
    hang: Hang,
    recipe: Recipe,
    inputs: Inputs,
    attempt: Attempt,
    peers: PeerMonitor,
    env: Mapping[str, str],
    standby: Standby,
) -> None:
    """Run torchrun on this node until it ends, a peer is lost, or the pod is stopped.

    Raises:
        LaunchError: why training ended; PEER when another rank ended first, PREEMPTED after a save
            on SIGTERM, HANG when a rank of this node hangs, INCOMPLETE when it ended without an
            error before its last step; the code of an error in the logs of processes that have
            failed while torchrun hangs.
        Stopped: SIGTERM was received, and nothing could be saved.
    """
    work = launch.work
    folder = attempt.folder(work)
    folder.mkdir(parents=True, exist_ok=True)
    ranks = folder / f"node-{launch.place.rank}"
    argv = _command(launch, recipe, inputs, attempt, ranks)
    resume = attempt.resume.path if attempt.resume else None
    logs.info("train start", attempt=attempt.number, resume=resume, argv=shlex.join(argv))
    logged, kills = last_step(work.checkpoints), oom_kills()
    command = _shared_by_attempts(launch, recipe, env)
    with (
        stopping(peers.agreement, processes=command.nproc, grace_seconds=launch.grace) as stop,
        watching(launch, hang, stop.board, peers, folder, env) as watch,
        standby.during(command, stop.board),
    ):
        stop.must_step = not _is_exportable(launch, recipe, attempt)
        owes = attempt.resume is not None and attempt.resume.owes_evaluation
        own = {"DPO_ATTEMPT_FOLDER": str(folder), features.EVALUATE_VARIABLE: str(int(owes))}
        inside, log = {**command.env, **own, **stop.env, **watch.env}, folder / f"{ranks.name}.log"
        child = Child(argv, inside, log, training_end.is_reported, standby.start)
        watch.torchrun = child.pid
        code = _wait(child, stop, watch, peers, standby)
        if _was_stopped(launch, stop, peers, code):
            return
    if (hung := watch.verdict(peers)) is None and code == 0:
        _check_end(launch, folder, stop.board)
        return
    started = attempt.resume is not None or last_step(work.checkpoints) != logged
    if hung is not None:
        raise (_logged(ranks, started=started) if watch.may_have_failed else None) or hung
    raise _failure(ranks, peers, started=started, oom_kills=oom_kills_since(kills), code=code)


def _is_exportable(launch: Launch, recipe: Recipe, attempt: Attempt) -> bool:
    """Return whether the attempt's checkpoint, if any, has what only a run's last save writes."""
    if attempt.resume is None:
        return True
    names = features.names(recipe, on_cpu=launch.gpus_per_node == 0)
    if "merge_last" in names:
        return attempt.resume.is_merged_whole
    weights = lookup.matching(attempt.resume.path, "*.safetensors")
    return "safetensors_last" not in names or any(weights)


def _was_stopped(launch: Launch, stop: StopOnRequest, peers: PeerMonitor, code: int | None) -> bool:
    """Return whether training was ended by its budget, before its last step."""
    # a process may fail after the save because the first of the others has ended
    has_saved = stop.has_saved() or (code != 0 and stop.has_checkpoint(launch.work.checkpoints))
    if has_saved and not peers.agreement.ends:
        raise stop.preempted()
    if has_saved or (code != 0 and stop.has_given_up()):
        _check_budget(launch, peers.agreement.ends)
        return True
    peers.agreement.ends = ""  # all steps are done, or a failure came first
    return False


def _check_budget(launch: Launch, why: str) -> None:
    """Refuse on rank 0 to end by the budget without a checkpoint."""
    logs.warning("training ended early", why=why)
    if launch.place.rank == 0 and checkpoint.newest(launch.work.checkpoints) is None:
        cause = f"{why} is spent, and no checkpoint was saved before"
        remedy = "allow more: the start, a step and a save must fit (megatron-dpo plan)"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="budget-no-checkpoint")


def _check_end(launch: Launch, folder: Path, board: StepBoard) -> None:
    """Check that the training of an attempt has ended by itself."""
    if launch.place.rank != 0:  # rank 0's node has the process that writes the record
        if (early := early_end(board, launch.place.rank)) is not None:
            raise early
        return
    found = trained.read(folder)
    if found is None:
        raise training_end.incomplete(f"its trainer has not written {folder / trained.NAME}")
    if found.reason != trained.FINISHED:
        logs.warning(
            "training ended early", why=found.reason, step=found.step, planned=found.planned
        )


def _wait(
    child: Child, stop: StopOnRequest, watch: HangWatch, peers: PeerMonitor, standby: Standby
) -> int | None:
    """Wait until torchrun ends, a peer is lost, a rank hangs or the pod is stopped; then end it.

    Returns:
        torchrun's exit code; None if it did not end by itself.

    Raises:
        Stopped: SIGTERM was received, and nothing could be saved.
    """
    workspace_watch.pause()
    try:
        code = stop.wait(child, peers, lambda: watch.has_ended)
        if code and not (stop.has_saved() or peers.agreement.is_asked):
            peers.restarts.announce_failure()
        settles = peers.restarts.is_asked and peers.restarts.settles
        if code is None and settles and not stop.has_saved():
            code = _settled(child, peers)
        return code
    except Stopped as stopped:
        peers.announce_end(Exit.TERMINATED, str(stopped))  # before torchrun ends
        raise
    finally:
        workspace_watch.resume()
        _end(child, SAVED_END_SECONDS if stop.has_saved() else 0.0, standby.pids)


def _end(child: Child, grace: float, spare: Collection[int]) -> None:
    """End torchrun with all training processes; log the seconds where a restart waits for them."""
    began = time.monotonic()
    child.end(grace, spare=spare)
    if (seconds := time.monotonic() - began) > LONG_END_SECONDS:
        logs.info("training processes ended", seconds=round(seconds, 1))


def _shared_by_attempts(launch: Launch, recipe: Recipe, env: Mapping[str, str]) -> Command:
    """Return program and environment of the training processes that all attempts share."""
    nproc, withheld = launch.nproc_per_node, tracker_keys(recipe, launch.place)
    shared = {
        **environment(env, launch.place, nproc=nproc, package=PACKAGE, without=withheld),
        **features.environment(recipe, on_cpu=launch.gpus_per_node == 0),
        "DPO_RUN_FOLDER": str(launch.work.home),  # read by launchers/training
        **({node_disk.FOLDER: str(launch.local)} if launch.local else {}),
        ALLOW_VARIABLE: "1" if recipe.allow_version_change else "0",
    }
    file = str(program(recipe, swift_folder()))
    return Command(program=file, nproc=nproc, place=launch.place, env=shared)


def _command(
    launch: Launch, recipe: Recipe, inputs: Inputs, attempt: Attempt, ranks: Path
) -> list[str]:
    """Return this node's command line; the ranks' logs go to ``ranks``."""
    flags = training_flags(
        recipe,
        inputs,
        output_dir=launch.work.checkpoints,
        resume=attempt.resume,
        on_cpu=launch.gpus_per_node == 0,
    )
    return torchrun(
        launch.place,
        nproc=launch.nproc_per_node,
        log_dir=ranks,
        python=sys.executable,
        program=[str(program(recipe, swift_folder())), *flatten(flags)],
    )


def _settled(child: Child, peers: PeerMonitor) -> int | None:
    """Return torchrun's exit code if it ends by itself within ``SETTLE_SECONDS``, or None."""
    stop = time.monotonic() + SETTLE_SECONDS
    return child.wait(peers.lost, until=lambda: time.monotonic() >= stop)


def _failure(
    ranks: Path,
    peers: PeerMonitor,
    *,
    started: bool,
    code: int | None,
    oom_kills: int | None = None,
) -> LaunchError:
    """Return the error that ends this rank, after torchrun failed on this node or was ended.

    A user error of this node counts even if a peer was lost first: the peer may have ended because
    of it, while torchrun was still ending this node's workers. Who ended first is agreed upon
    where the gang may restart in place (``gang/restart_agreement.py``), and waited for elsewhere.
    """
    if code is None and peers.loss is None:
        cause = "ended because another rank failed"
        return LaunchError(Exit.PEER, cause, "check its log", id="ended-for-peer")
    agent_log = ranks.with_suffix(".log")
    found = training_end.why(ranks, agent_log, started=started, oom_kills=oom_kills, code=code or 0)
    if found is not None and found.code in USER:
        return found.error()
    patience = _patience(found) if not peers.restarts.is_enabled else 0.0
    if peers.loss is not None or (patience and peers.lost.wait(patience)):
        assert peers.loss is not None
        return peers.loss.error()
    if found is None:
        return LaunchError(
            Exit.PEER, "training failed without an exception", f"check {ranks}", id="train-failed"
        )
    return found.error(logs=ranks)


def _logged(ranks: Path, *, started: bool) -> LaunchError | None:
    """Return why processes have ended while torchrun runs; None if no log states a cause."""
    found = training_end.why(ranks, ranks.with_suffix(".log"), started=started)
    return None if found is None or found.cascade else found.error(logs=ranks)


def _patience(found: Verdict | None) -> float:
    """Return the seconds to wait for a peer that may have ended first."""
    if found is None:
        return SIGNLESS_SECONDS
    return LOSS_REPORT_TIMEOUT_SECONDS if found.cascade else 0.0
