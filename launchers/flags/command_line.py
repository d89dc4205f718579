"""Build command lines from a recipe: program, flags and environment.

Everything here but ``environment`` is pure. What ms-swift's flags mean is in its own documentation;
the launcher sets only the ones in ``renames.OWNED``, because it alone knows the paths and whether a
run resumes.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers.config.flag_value import Value, switch
from launchers.config.rank import Place
from launchers.config.recipe import KEPT_BY_TIME, SAVE_STEPS, TRACKERS, Recipe
from launchers.exits import Exit, LaunchError
from launchers.flags import code_files, external_plugins, features
from launchers.storage.checkpoint import Checkpoint
from launchers.system import process

SECRETS = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "MODELSCOPE_API_TOKEN", "MODELSCOPE_SDK_TOKEN",
    "DPO_WEBHOOK_URL",
)  # fmt: skip
"""Needed by the launcher only: neither in the environment of training nor in the part of the
launcher's memory that ``/proc/<launcher>/environ`` shows.

Training runs as the launcher's user in its container and can still reach what that user can: files
of mounted Secrets (``code.existingSecret``), the launcher's memory where ptrace is allowed, and the
environment of a process that the kubelet starts there (probe, ``kubectl exec``). A tracker's key is
needed in training, on the node that reports.
"""

DEFAULTS: dict[str, Value] = {
    # ms-swift's default of 18,000,000 s would hide a hang for 208 days
    # (swift/arguments/base_args/base_args.py); it must exceed tokenisation, done under a barrier.
    "ddp_timeout": "7200",
    # no look-up of the model on a hub: the download stage has verified it
    "check_model": "false",
}
BY_TIME: dict[str, Value] = {
    "save_steps": "1000000000",  # none is saved by ms-swift but the last
    "save_total_limit": str(KEPT_BY_TIME),
    "eval_steps": str(SAVE_STEPS),  # otherwise save_steps
}
"""Flags where checkpoints are saved by time (``stop/save_timer.py``)."""
OUTER = ("PET_", "TORCHELASTIC_")
"""Prefixes of the variables by which a torchrun or Kubeflow around the launcher sets options of
torchrun (``PET_RDZV_BACKEND``): the launcher's own torchrun must not read them."""
IN_BACKGROUND = ("async_save", "use_flash_ckpt")
"""Switches that let a checkpoint be written after its save has returned, and been sealed."""
ON_CPU: dict[str, Value] = {"use_cpu": "true", "ddp_backend": "gloo"}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Paths of the outputs of the stages before training."""

    model: Path
    """The original model in Hugging Face format: start of the policy, and the reference."""
    mcore: Path | None
    """The model in Megatron format; None if the convert stage is skipped."""
    datasets: tuple[str, ...]
    """Paths, each with an optional ``#samples``."""
    clone: Path | None
    """The training code; relative plugin paths start here."""
    not_converted: str = ""
    """Reason why the convert stage does not run; empty when it does."""


def torchrun(
    place: Place, *, nproc: int, log_dir: Path, python: str, program: Sequence[str]
) -> list[str]:
    """Build torchrun's command line for one node.

    Static rendezvous: under c10d ranks follow the order of arrival (pytorch #150660).
    No restarts: torchrun restarts only the failed node's agent, which hangs the others; the
    JobSet restarts the whole gang.
    """
    options = {
        "nnodes": place.nodes, "nproc-per-node": nproc, "node-rank": place.rank,
        "master-addr": place.master_addr, "master-port": place.master_port, "max-restarts": 0,
        "log-dir": log_dir, "redirects": 3, "tee": 3,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [python, "-m", "torch.distributed.run", *words, *program]


def program(recipe: Recipe, swift: Path) -> Path:
    """Return ms-swift's entry file: the ``swift`` and ``megatron`` wrappers swallow signals."""
    folder = swift / "cli" / "_megatron" if recipe.backend == "megatron" else swift / "cli"
    return folder / f"{recipe.task}.py"


def script_command(recipe: Recipe, inputs: Inputs) -> list[str]:
    """Return the command of backend ``script``: Python runs a ``.py``, bash any other file.

    Raises:
        LaunchError: CONFIG for a relative path without a clone.
    """
    path = code_files.in_clone("recipe.script", recipe.script[0], inputs.clone)
    return [sys.executable if path.endswith(".py") else "bash", path, *recipe.script[1:]]


def training_flags(
    recipe: Recipe, inputs: Inputs, *, output_dir: Path, resume: Checkpoint | None, on_cpu: bool
) -> dict[str, Value]:
    """Merge the launcher's defaults, the recipe's flags and what the launcher alone decides."""
    for name in filter(recipe.is_on, IN_BACKGROUND):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.{name}: returns before the checkpoint is complete",
            "remove it: a partial checkpoint would count as complete",
            id="async-checkpoint",
        )
    cpu = ON_CPU if on_cpu and recipe.backend == "transformers" else {}
    weights = _weights(recipe, inputs, resume)
    given = dict(recipe.args)
    if resume is not None and "adapters" in weights:
        given.pop("mcore_adapter", None)  # with it ms-swift reads no adapters (trainers/base.py)
    return {
        **DEFAULTS,
        **cpu,
        **(BY_TIME if recipe.saves_by_time else {}),
        **({"eval_on_start": "true"} if evaluates_on_start(recipe, resume) else {}),
        **given,
        **code_files.resolved(given, inputs.clone),
        **weights,
        **({"report_to": [*recipe.reports_to]} if recipe.trackers else {}),
        "dataset": list(inputs.datasets),
        "output_dir": str(output_dir),
        "add_version": "false",
        "external_plugins": external_plugins.plugins(recipe, inputs.clone),
        "callbacks": features.callbacks(recipe, on_cpu=on_cpu),
    }


def evaluates_on_start(recipe: Recipe, resume: Checkpoint | None) -> bool:
    """Return whether the transformers trainer evaluates before the first step.

    It does in the first attempt, and where the run was stopped before an evaluation had ended. On
    Megatron, which has no such flag, the feature ``evaluation`` does.
    """
    is_off = switch(recipe.arg("eval_strategy", "steps")) is False
    starts = recipe.backend == "transformers" and (resume is None or resume.owes_evaluation)
    return starts and features.evaluates(recipe) and not is_off


def _weights(recipe: Recipe, inputs: Inputs, resume: Checkpoint | None) -> dict[str, Value]:
    """Choose the flags that say which weights policy and reference start from.

    The reference is pinned to the original model on every attempt: left to ms-swift's default
    it would become the policy's checkpoint on a resume, and DPO would be silently wrong
    (``swift/megatron/trainers/rlhf_mixin.py``: ``args.ref_model or args.model``).
    """
    flags: dict[str, Value] = {"model": str(inputs.model)}
    if recipe.has_reference:
        flags["ref_model"] = str(inputs.model)
    if recipe.backend == "transformers":
        return flags | ({"resume_from_checkpoint": str(resume.path)} if resume else {})
    is_exact = resume is not None and _is_exact(recipe, resume)
    if inputs.mcore is not None:
        if resume is None or is_exact:  # otherwise the Hugging Face weights count
            flags["mcore_model"] = str(inputs.mcore)
        if recipe.has_reference:
            flags["mcore_ref_model"] = str(inputs.mcore)
    return flags | (_continued(recipe, resume, is_exact=is_exact) if resume else {})


def _is_exact(recipe: Recipe, resume: Checkpoint) -> bool:
    """Return whether the optimizer's state is in a checkpoint and is to be restored."""
    return resume.has_megatron_state and not recipe.is_on("no_save_optim")


def _continued(recipe: Recipe, resume: Checkpoint, *, is_exact: bool) -> dict[str, Value]:
    """Return the flags with which Megatron resumes from a checkpoint.

    That of an adapter holds none of the model's own weights (``swift/megatron/trainers/base.py``,
    ``save_checkpoint``: ``peft_format``), which come from where a first start has them.
    """
    path = str(resume.path)
    if not is_exact:  # safetensors only
        where: dict[str, Value] = {"adapters": [path]} if recipe.trains_adapter else {"model": path}
        return where | {"finetune": "false"}
    return {
        "mcore_adapter" if recipe.trains_adapter else "mcore_model": path,
        "finetune": "false",
        "no_load_optim": "false",
        "no_load_rng": recipe.arg("no_save_rng", "false"),
    }


def flatten(flags: Mapping[str, Value]) -> list[str]:
    """Format flags as command-line arguments, sorted by name.

    >>> flatten({"lr": "5e-6", "dataset": ["a", "b"], "megatron_extra_kwargs": {"k": 1}})
    ['--dataset', 'a', 'b', '--lr', '5e-6', '--megatron_extra_kwargs', '{"k": 1}']
    """
    words: list[str] = []
    for name, value in sorted(flags.items()):
        values = [json.dumps(value)] if isinstance(value, dict) else _words(value)
        words += [f"--{name}", *values]
    return words


def _words(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def tracker_keys(recipe: Recipe, place: Place) -> set[str]:
    """Return the variables of API keys that no process of this node needs.

    Megatron's last rank reports, and the first rank of the transformers trainer.
    """
    node = place.nodes - 1 if recipe.backend == "megatron" else 0
    used = set(recipe.reports_to) & TRACKERS.keys()
    return {TRACKERS[name] for name in used if place.rank != node}


def environment(
    env: Mapping[str, str],
    place: Place,
    *,
    nproc: int,
    package: Path,
    without: Collection[str] = (),
) -> dict[str, str]:
    """Build the training processes' environment: no secrets, no hub, our package importable.

    What is left out, ``SECRETS`` and the names in ``without``, they could read in the launcher's
    own environment: it is overwritten there, except in ``os.environ``.

    ``NNODES``, ``NODE_RANK`` and ``NPROC_PER_NODE`` are read by ms-swift
    (``swift/utils/env.py``) and not set by torchrun.
    """
    dropped = {*SECRETS, *without}
    process.hide_variables(dropped)
    kept = {k: v for k, v in env.items() if k not in dropped and not k.startswith(OUTER)}
    paths = [str(package.parent), *filter(None, [env.get("PYTHONPATH", "")])]
    return {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        **kept,
        "PYTHONPATH": ":".join(paths),
        "NNODES": str(place.nodes),
        "NODE_RANK": str(place.rank),
        "NPROC_PER_NODE": str(nproc),
    }
