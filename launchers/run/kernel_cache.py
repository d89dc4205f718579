"""The compiled kernels of this node, before and after its training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launchers import logs
from launchers.config.settings import Settings
from launchers.exits import LaunchError
from launchers.preflight.nvidia_smi import Smi
from launchers.preflight.probes import ask
from launchers.run import kernel_archive, kernel_folder
from launchers.run.kernel_archive import Entry
from launchers.storage import disk


def _nothing() -> None:
    """Keep nothing."""


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What training needs to know of them, and how they are kept; by default not at all."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the training processes."""
    save: Callable[[], None] = _nothing
    """Archives what was compiled; raises nothing."""


def kernels(settings: Settings, smi: Smi | None, env: Mapping[str, str]) -> Kernels:
    """Fetch the kernels of earlier runs on such GPUs with such software."""
    if not settings.jit_cache or settings.gpus_per_node == 0:
        return Kernels()
    told = smi or ask(env)[0]  # without the preflight nobody has asked yet
    if told is None:
        logs.warning("compiled kernels not kept", why="nvidia-smi tells no GPU")
        return Kernels()
    try:
        return _kernels(settings, told, env)
    except (OSError, LaunchError) as error:
        logs.warning("compiled kernels not kept", cause=error)
        return Kernels()


def _kernels(settings: Settings, smi: Smi, env: Mapping[str, str]) -> Kernels:
    begun = time.monotonic()
    key = kernel_folder.key_of(kernel_folder.gather(smi))
    folder, kept = kernel_folder.local_folder(key), settings.work.jit(key)
    disk.note_use(kept)
    warm = kernel_archive.seed([kept / name for name in kernel_archive.NAMES], folder)
    known = kernel_archive.contents(folder)
    seconds = round(time.monotonic() - begun, 2)
    logs.info("compiled kernels", key=key, files=len(known), seconds=seconds)
    own = kernel_archive.own_name(settings.place.rank, settings.place.nodes)
    found = kernel_folder.variables(
        folder,
        env,
        run=settings.run,
        warm=warm,
        cores=len(os.sched_getaffinity(0)),
        nproc=settings.nproc_per_node,
        bytecode=kernel_folder.has_bytecode(),
    )
    if not own:
        return Kernels(env=found)
    return Kernels(
        env=found,
        save=lambda: _save(folder, kept / own, known, settings.pod or settings.run),
    )


def _save(folder: Path, archive: Path, known: Mapping[str, Entry], holder: str) -> None:
    """Archive what was compiled, as of ``jit_archive.publish``; say why not, if not."""
    begun = time.monotonic()
    try:
        done = kernel_archive.publish(folder, archive, known, holder)
    except (OSError, ValueError) as error:
        logs.warning("compiled kernels not archived", cause=error)
        return
    logs.info("compiled kernels archived", done=done, seconds=round(time.monotonic() - begun, 2))
