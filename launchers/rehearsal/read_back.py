"""Start ``load_export.py`` on an export, and keep what it found in ``export.json``."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launchers import PACKAGE, logs
from launchers.config.settings import Launch
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import environment
from launchers.rehearsal.load_export import CHOICES, VARIABLE, chosen
from launchers.rehearsal.measured import Loaded
from launchers.storage import disk
from launchers.system import lookup
from launchers.system.atomic_file import read_object, replace
from launchers.system.process import Child


def read_back(
    launch: Launch, export: Path, model: Path, step: int, env: Mapping[str, str], backend: str
) -> dict[str, Any]:
    """Return what a process of its own finds when it loads an export as a server would.

    ``backend`` decides where the environment does not.
    """
    work, result = launch.work, launch.work.export_test
    disk.remove(result)
    probes = [work.probe(step), work.probe(0)]
    found = Loaded()
    if chosen(env, backend) == "none" and not launch.rehearse:
        found = Loaded(not_compared=f"{VARIABLE} is not set to {CHOICES[1]}")
    elif not launch.rehearse and not lookup.exists(probes[0]):
        why = f"training recorded no log-probabilities at step {step}: "
        if lookup.exists(probes[1]):
            why += "it ended between the save and the record"
        else:
            why += "only DPO without streaming, context or sequence parallelism and virtual "
            why += "pipeline stages does, at its last step"
        found = Loaded(not_compared=why)
    else:
        words = map(str, (export, model, result, *probes))
        program = [sys.executable, "-m", "launchers.rehearsal.load_export", *words]
        inside = environment(env, launch.place, nproc=1, package=PACKAGE)
        code = Child(program, inside, work.home / "export.log").ended()
        if document := read_object(result):
            return _logged(document)
        why = f"the process that reads it ended with {code}; see export.log"
        found = Loaded(not_compared=why, problems=(why,) if launch.rehearse else ())
    document = asdict(found)
    replace(result, json.dumps(document) + "\n")
    return _logged(document)


def refuse_choice(env: Mapping[str, str]) -> None:
    """Refuse another value of ``DPO_EXPORT_TEST``.

    Raises:
        LaunchError: CONFIG.
    """
    if (found := env.get(VARIABLE) or CHOICES[0]) not in CHOICES:
        remedy = f"use one of {', '.join(CHOICES)} in extraEnv"
        raise LaunchError(Exit.CONFIG, f"{VARIABLE}={found!r}", remedy, id="export-test-choice")


def summary(result: Path) -> str:
    """Return what the test of an export found, as one sentence; empty without a result."""
    found = read_object(result)
    if found.get("problems"):
        return f"the export differs: {found['problems'][0]}"
    if compared := found.get("compared"):
        rows = "held-out" if compared["held_out"] else "training"
        text = f"the export has the trainer's log-probabilities of {compared['pairs']} {rows} pairs"
        return f"{text} within {compared['difference']:.1e} nats a token"
    return f"export not compared: {found['not_compared']}" if found.get("not_compared") else ""


def _logged(document: dict[str, Any]) -> dict[str, Any]:
    if document["problems"]:
        logs.error("export differs", problems=document["problems"])
    elif why := document["not_compared"]:
        (logs.info if VARIABLE in why else logs.warning)("export not compared", why=why)
    else:
        logs.info("export compared", **document["compared"])
    return document


def refuse_differing(launch: Launch) -> None:
    """End a run whose export is not what was trained.

    Raises:
        LaunchError: CONFIG with the problems; the export stays.
    """
    found = read_object(launch.work.export_test)
    if launch.rehearse or not found.get("problems"):
        return
    raise LaunchError(
        Exit.CONFIG,
        f"{launch.work.export} is not the model that was trained: {'; '.join(found['problems'])}",
        "the export and the checkpoints stay; see export.log and the plugins that change the "
        f"model, or remove {launch.work.export_test} and install again to accept the export",
        id="export-differs",
    )
