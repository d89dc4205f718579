"""The train stage of ``recipe.backend: script``: a script of the clone, once on this node."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from launchers import PACKAGE, logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch
from launchers.exits import FREE, USER, Exit, LaunchError
from launchers.flags.command_line import Inputs, environment, script_command
from launchers.gang.peer_monitor import PeerMonitor
from launchers.stages.attempt import Attempt
from launchers.stop.agreement import seconds_to_save
from launchers.system import training_end
from launchers.system.failures import tail
from launchers.system.host_memory import oom_kills, oom_kills_since
from launchers.system.process import Child, Stopped


def run_script(
    launch: Launch,
    recipe: Recipe,
    inputs: Inputs,
    attempt: Attempt,
    peers: PeerMonitor,
    env: Mapping[str, str],
) -> None:
    """Run the script until it ends, a peer is lost, or the pod is stopped.

    SIGTERM is passed on; the script then has the grace period to save, and exits with 75 if it has.

    Raises:
        LaunchError: with the script's exit code if that is one of a user error or of a stop
            (``exits.py``), otherwise what its output or a peer's loss explains.
        Stopped: SIGTERM was received, and the script did not end with 75.
    """
    place, folder = launch.place, attempt.folder(launch.work)
    folder.mkdir(parents=True, exist_ok=True)
    log, argv = folder / f"node-{place.rank}.log", script_command(recipe, inputs)
    logs.info("script start", attempt=attempt.number, argv=shlex.join(argv))
    kills, grace, code = oom_kills(), 0.0, None
    inside = _environment(launch, inputs, env)
    child = Child(argv, {**inside, "DPO_ATTEMPT_FOLDER": str(folder)}, log)
    try:
        code = child.wait(peers.lost)
        if code is None and peers.loss is not None and peers.loss.code in FREE:
            grace = seconds_to_save(launch.grace)  # the gang is stopped: all may save
    except Stopped as stopped:
        grace = seconds_to_save(launch.grace)
        peers.announce_end(Exit.TERMINATED, str(stopped))
        child.end(grace)
        code = child.poll()
        if code != Exit.PREEMPTED:  # 0 may mean stopped or done, and done would end the run
            raise
    finally:
        child.end(grace)
    if code != Exit.OK:
        raise _failure(recipe.script[0], code, log, peers, oom_kills_since(kills))


def _environment(launch: Launch, inputs: Inputs, env: Mapping[str, str]) -> dict[str, str]:
    place = launch.place
    return {
        **environment(env, place, nproc=launch.nproc_per_node, package=PACKAGE),
        "MASTER_ADDR": place.master_addr,
        "MASTER_PORT": str(place.master_port),
        "DPO_MODEL": str(inputs.model),
        "DPO_DATASETS": "\n".join(inputs.datasets),
        "DPO_RUN_FOLDER": str(launch.work.home),
    }


def _failure(
    script: str, code: int | None, log: Path, peers: PeerMonitor, ooms: int | None
) -> LaunchError:
    """Return the error that ends this rank; its script's code counts even if a peer was lost."""
    cause = f"{script} ended with {code}"
    if code in USER | FREE:
        return LaunchError(Exit(code), cause, f"see {log}", id="script-ended")
    if peers.loss is not None:
        return peers.loss.error()
    found = training_end.attribute([tail(log)], "", started=True, oom_kills=ooms, code=code or 0)
    if found is not None:
        return found.error(logs=log)
    return LaunchError(Exit.PEER, cause, f"see {log}", id="script-failed")
