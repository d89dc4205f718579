"""The commands: ``python3 -m launchers run|clone|download|convert|train|check|prove|preflight``.

``run`` does all stages that are not skipped and is what the pods run; ``clone``, ``download``
and ``convert`` do one stage; ``train`` trusts the stages before it; ``check`` says what would
be done, and refuses what can't work; ``prove`` waits for the run's end and verifies what it left;
``preflight`` checks GPUs and network without a run.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace

from launchers import logs, termination
from launchers.config.recipe import load
from launchers.config.settings import Settings, describe, from_env
from launchers.exits import Exit, LaunchError
from launchers.inputs.model_check import check_model
from launchers.inputs.preconditions import check, show
from launchers.run.preflight_command import DEFAULTS, preflight
from launchers.run.run import run
from launchers.run.stage_command import COMMANDS as SINGLE
from launchers.run.stage_command import run_stage
from launchers.run.verify import prove
from launchers.storage import disk
from launchers.storage.trainer_log import last_step
from launchers.system import process

COMMANDS = ("run", *SINGLE, "train", "check", "prove", "preflight")


def main(argv: list[str], env: Mapping[str, str]) -> int:
    """Run one command; return the exit code of the contract."""
    logs.configure()
    settings: Settings | None = None
    try:
        command = _command(argv)
        settings = known = from_env({**DEFAULTS, **env} if command == "preflight" else env)
        logs.configure(settings.place.rank)
        process.raise_on_signals(lambda stopped: _write_end(known, _stopped(stopped), command))
        process.adopt_orphans()
        logs.info(f"{command} start", **describe(settings))
        with disk.reporting(settings.workspace):
            _act(command, settings, env)
    except LaunchError as error:
        return _end(settings, error, argv)
    except process.Stopped as stopped:
        return _end(settings, _stopped(stopped), argv)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        unknown = LaunchError(Exit.PEER, repr(error), "report this: the launcher did not expect it")
        return _end(settings, unknown, argv)
    return Exit.OK


def _command(argv: list[str]) -> str:
    if len(argv) != 1 or argv[0] not in COMMANDS:
        raise LaunchError(
            Exit.USAGE,
            f"command {' '.join(argv) or '(none)'}",
            f"write python3 -m launchers {'|'.join(COMMANDS)}",
        )
    return argv[0]


def _act(command: str, settings: Settings, env: Mapping[str, str]) -> None:
    if command == "preflight":
        preflight(settings, env)
        return
    recipe = load(settings.recipe)
    if command == "check":
        check(settings, recipe)
        check_model(settings, recipe, may_ask=True)
        show(settings, recipe)
    elif command in SINGLE:
        run_stage(command, settings, recipe, env)
    elif command == "prove":
        prove(settings, recipe)
    elif command == "train":
        trusted = frozenset({"clone", "download"})
        run(replace(settings, skips=settings.skips | trusted), recipe, env)
    else:
        run(settings, recipe, env)


def _stopped(stopped: process.Stopped) -> LaunchError:
    return LaunchError(
        Exit.TERMINATED, f"stopped by {stopped}", "the run resumes from its last checkpoint"
    )


def _end(settings: Settings | None, error: LaunchError, argv: list[str]) -> int:
    """Say why the launcher ends, as its last line and as the termination message."""
    stage = error.stage or (argv[0] if argv else "")
    logs.error(
        "run ended", code=int(error.code), stage=stage, cause=error.cause, remedy=error.remedy
    )
    if settings is not None:
        _write_end(settings, error, stage)
    return error.code


def _write_end(settings: Settings, error: LaunchError, stage: str) -> None:
    step = last_step(settings.work.checkpoints)
    end = termination.of(error, stage=stage, rank=settings.place.rank, step=step)
    termination.write(settings.termination_log, end)
