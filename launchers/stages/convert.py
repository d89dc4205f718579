"""The convert stage: Hugging Face weights to Megatron's distributed format, on rank 0's GPUs.

It can be skipped: Megatron-SWIFT 4.x also reads Hugging Face weights. ``Inputs.mcore`` carries the
decision; ``flags/command_line.py`` chooses ``--model`` or ``--mcore_model`` by it.
"""

import json
import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launchers import PACKAGE, logs
from launchers.config.flag_value import Value
from launchers.config.rank import Place
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import Inputs, environment, flatten, torchrun
from launchers.inputs.paths import CONVERTER
from launchers.plan.model_config import EXPERTS
from launchers.storage import disk, marker
from launchers.storage.output import Outcome, produce, usable
from launchers.system import lookup, training_end
from launchers.system.ms_swift import swift_folder
from launchers.system.process import Child
from launchers.upstream import code_identity

CODE = "code"
"""Input of a conversion: the identity of its converter."""
PASSED_ON = ("model_type", "template", "torch_dtype")
"""Flags of the recipe that the conversion needs, too."""
TERMINATION_GRACE_SECONDS = 5.0
"""Time that torchrun has to end its workers after SIGTERM."""


def convert(
    launch: Launch, recipe: Recipe, inputs: Inputs, *, model_digest: str, env: Mapping[str, str]
) -> Outcome:
    """Convert the model, unless it is already converted or is not to be.

    Another ``model_digest`` is another conversion.
    """
    if inputs.mcore is None:
        why = inputs.not_converted
        logs.info("convert skipped", why=why)
        return Outcome("convert", "", "skipped", why, launch.workspace)
    flags = conversion_flags(recipe, inputs.model)
    return produce(
        "convert",
        inputs.mcore.name,
        inputs.mcore,
        _wanted(launch, inputs.mcore, {"model": model_digest, "flags": flatten(flags)}, env),
        lambda folder: _export(launch, flags, inputs.model, folder, env),
        skip=False,
        holder=launch.run,
    )


def _wanted(
    launch: Launch, path: Path, inputs: Mapping[str, object], env: Mapping[str, str]
) -> dict[str, object]:
    """Return the inputs of a conversion with the code of its converter.

    The conversion that a run began with stays, whatever made it: its checkpoints depend on it.
    """
    found = marker.read(path)
    if found is not None:
        kept = {**inputs, **{k: v for k, v in found.inputs.items() if k == CODE}}
        noted = marker.begun_with(launch.work).get(f"convert {path.name}")
        if noted == marker.digest(found) and usable(path, marker.plain(kept)):
            return kept
    with disk.reporting(path):
        return {**inputs, CODE: code_identity.identity(CONVERTER, env=env, launcher=False)}


def conversion_flags(recipe: Recipe, model: Path) -> dict[str, Value]:
    """Build the flags of ``megatron export``, without the output folder."""
    passed = {name: recipe.args[name] for name in PASSED_ON if name in recipe.args}
    # exist_ok: the folder exists, as <name>.partial
    own: dict[str, Value] = {"model": str(model), "to_mcore": "true", "exist_ok": "true"}
    return {"torch_dtype": "bfloat16", **passed, **own}


def expert_parallel(model: Path, gpus: int) -> int:
    """Return the conversion's expert parallel size; 1 for a dense model.

    Any layout will do: Megatron's ``torch_dist`` format reshards on load.

    Raises:
        LaunchError: DATA when config.json is missing or not JSON; IO if the storage does not
            answer.
    """
    try:
        config = json.loads(lookup.text(model / "config.json") or "")
    except ValueError as error:
        raise LaunchError(
            Exit.DATA,
            f"{model / 'config.json'}: {error}",
            "set recipe.model to a model in Hugging Face format",
            id="model-config",
        ) from None
    experts = next((int(config[name]) for name in EXPERTS if config.get(name)), 1)
    return math.gcd(experts, max(1, gpus))


def _export(
    launch: Launch, flags: dict[str, Value], model: Path, folder: Path, env: Mapping[str, str]
) -> None:
    nproc = expert_parallel(model, launch.gpus_per_node)
    alone = Place(
        rank=0,
        nodes=1,
        master_addr="127.0.0.1",
        master_port=launch.place.master_port,
        source="convert",
    )
    log, ranks = (folder.parent / f"{folder.name}.{kind}" for kind in ("log", "ranks"))
    shutil.rmtree(ranks, ignore_errors=True)  # an earlier attempt's logs
    log.unlink(missing_ok=True)
    words = flatten({**flags, "output_dir": str(folder), "expert_model_parallel_size": str(nproc)})
    argv = torchrun(
        alone,
        nproc=nproc,
        log_dir=ranks,
        python=sys.executable,
        program=[str(swift_folder() / "cli" / "_megatron" / "export.py"), *words],
    )
    child = Child(argv, environment(env, alone, nproc=nproc, package=PACKAGE), log)
    if child.ended(TERMINATION_GRACE_SECONDS):
        raise _failure(ranks, log)


def _failure(ranks: Path, log: Path) -> LaunchError:
    found = training_end.why(ranks, log, started=False)
    if found is None:
        return LaunchError(
            Exit.PEER, "conversion failed without an exception", f"check {log}", id="convert-failed"
        )
    return replace(found, cause=f"conversion failed: {found.cause}").error()
