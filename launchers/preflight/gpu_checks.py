"""Checks of this pod's GPUs, over what nvidia-smi says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from launchers.config import gpu_models
from launchers.config.gpu_models import Card
from launchers.exits import Exit
from launchers.preflight.finding import Finding, failed, ok, warning
from launchers.preflight.nvidia_smi import Gpu, Smi

IN_USE = 0.05
"""Share of a GPU's memory that may be taken before the run: the driver's own is below 1 %."""
_DRAIN = "cordon the node and reset or replace the GPU"


def present(gpus: Sequence[Gpu], wanted: int, card: Card | None) -> list[Finding]:
    """Check number and model of the GPUs.

    A card other than ``gpuModel`` on all of them is the values' mistake (exit 78): the pod would
    land there again. Two kinds in one pod are the node's (exit 80).
    """
    kinds = Counter(gpu.name for gpu in gpus)
    seen = ", ".join(f"{count} x {name}" for name, count in sorted(kinds.items())) or "no GPU"
    if len(gpus) < wanted:
        return [failed("cards", f"{seen}, and gpusPerNode is {wanted}", _DRAIN)]
    if len(kinds) > 1:
        return [failed("cards", f"{seen}: two kinds of GPU in one pod", _DRAIN)]
    if card is not None and next(iter(kinds)) not in card.smi:
        return [_other(next(iter(kinds)), card)]
    if len(gpus) > wanted:
        many = f"{seen}, and gpusPerNode is {wanted}"
        return [warning("cards", many, "let the device plugin give the pod its own GPUs only")]
    return [ok("cards", seen)]


def _other(name: str, card: Card) -> Finding:
    found = gpu_models.seen(name)
    write = f"write gpuModel: {found.name}" if found else 'write gpuModel: ""'
    return failed(
        "cards",
        f"the GPUs are {name}, and gpuModel is {card.name}",
        f"{write}, or a nodeSelector of the nodes that have it",
        code=Exit.CONFIG,
    )


def healthy(gpus: Sequence[Gpu]) -> list[Finding]:
    """Check for memory errors and faults; clocks held down by the hardware are a warning."""
    found = []
    for gpu in gpus:
        faults = list(gpu.faults)
        if gpu.uncorrected:
            faults.insert(0, f"{gpu.uncorrected} uncorrected memory errors")
        if faults:
            found.append(failed("health", "; ".join(faults), _DRAIN, who=gpu.label))
        elif gpu.slowed:
            slowed = f"the hardware holds its clocks down: {', '.join(gpu.slowed)}"
            found.append(warning("health", slowed, "look at power and cooling", who=gpu.label))
    return found or [ok("health", f"{len(gpus)} GPUs without errors")]


def unused(gpus: Sequence[Gpu]) -> list[Finding]:
    """Check that no other process holds a GPU's memory: training would end as out of memory."""
    found = [
        failed(
            "idle",
            f"{gpu.used_mib} of {gpu.memory_mib} MiB are taken by another process",
            "end what is left of an earlier job there; GPUs of a run are its own",
            who=gpu.label,
        )
        for gpu in gpus
        if gpu.used_mib > IN_USE * gpu.memory_mib
    ]
    return found or [ok("idle", f"at most {max((g.used_mib for g in gpus), default=0)} MiB taken")]


def driver(smi: Smi, cuda: str | None) -> Finding:
    """Check the driver against the CUDA that the image's torch was built with.

    Within a major release any driver of that release will do (NVIDIA, CUDA Compatibility, "minor
    version compatibility"); an older major needs a newer driver.

    Args:
        smi: nvidia-smi's answer.
        cuda: ``torch.version.cuda``; empty for a torch without CUDA, None when it is not known.

    >>> driver(Smi(driver="550.54.15", cuda="12.4", gpus=()), "13.0").state
    'failed'
    >>> driver(Smi(driver="580.65.06", cuda="13.0", gpus=()), "12.8").state
    'ok'
    """
    seen = f"driver {smi.driver} (CUDA {smi.cuda}), image CUDA {cuda or 'unknown'}"
    if cuda == "":
        return failed(
            "driver",
            "the image's torch was built without CUDA",
            "write an image with CUDA, or gpusPerNode: 0",
            code=Exit.CONFIG,
        )
    if cuda is None or not smi.cuda[:1].isdigit():
        return warning("driver", seen, "look at the versions of driver and image")
    if int(cuda.partition(".")[0]) > int(smi.cuda.partition(".")[0]):
        remedy = f"use nodes with a newer driver, or an image with CUDA {smi.cuda}"
        return failed("driver", seen, remedy)
    return ok("driver", seen)


def told(xids: Sequence[str]) -> list[Finding]:
    """Show the driver's errors in the kernel's log, where the pod may read it.

    They may be older than the last reset, so that alone they end no run.
    """
    remedy = "look them up in NVIDIA's Xid catalogue"
    return [warning("health", f"in the kernel's log: {line}", remedy) for line in xids[-4:]]
