"""Checks of one pod: packages, disk, RDMA, shared memory, GPUs. Pure."""

import errno
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from launchers.config import gpu_models
from launchers.config.gpu_models import GpuModel
from launchers.config.recipe import Backend
from launchers.config.settings import Settings
from launchers.exits import Exit
from launchers.preflight.finding import Finding, failed, ok, skipped, warning
from launchers.preflight.nvidia_smi import Gpu, Smi, visible
from launchers.preflight.probes import (
    LINK,
    LOCK,
    RENAME,
    REQUIRED_PACKAGES,
    PodFacts,
    beyond_torch,
)
from launchers.units import GIB
from launchers.upstream.patches import Verdict
from launchers.upstream.record import NEVER_RUN
from launchers.upstream.versions import parse_version

SHM = GIB
"""Minimum /dev/shm of a pod with GPUs, bytes: NVIDIA's NCCL guide asks for ``--shm-size=1g``. With
a container's default of 64 MiB, NCCL and data loaders end with SIGBUS."""
MEMLOCK = GIB
"""Minimum locked memory for RDMA, bytes; usual default limits are 64 KiB and 8 MiB."""
SOCKETS = ("NET/Socket", "NET/FasTrak", "NET/GPUDirectTCPX")
"""Transports that register no memory with an RDMA adapter."""
IN_USE = 0.05
"""Share of a GPU's memory that may be in use before the run; the driver uses less than 1 %."""
_REMEDY = {
    RENAME: "use NFS, Lustre or another file system as workspace, and object stores for logs alone",
    LOCK: "mount it with locks (NFS 4, or 3 with lockd; Lustre: -o flock), or set HF_HOME and "
    "MODELSCOPE_CACHE to a disk of the node",
    LINK: "the export needs room for a copy of the last checkpoint",
}
"""What to do without an operation."""
_DRAIN = "cordon the node and reset or replace the GPU"


def judge_pod(
    seen: PodFacts, settings: Settings, backend: Backend | None, needed: int | None
) -> list[Finding]:
    """Judge the facts of a pod; checks of GPUs are omitted on CPU.

    ``needed`` bytes are checked on rank 0 only: all ranks share one volume.
    """
    place = settings.launch.place
    found = [
        caches(seen.caches, place.nodes),
        versions(seen.versions, backend),
        *file_system(seen.operations, any(seen.caches.values())),
    ]
    if seen.verdicts:
        found.append(patches(seen.verdicts))
    if settings.launch.gpus_per_node > 0 and backend in REQUIRED_PACKAGES:
        found.append(stack(seen.never_run))
    if place.rank == 0:
        found.append(disk(seen.free, needed))
    if settings.launch.gpus_per_node == 0:
        return found
    found += [shm(seen.shm), interfaces(seen.named, seen.interfaces)]
    if place.nodes > 1:
        found.append(
            rdma(
                settings.stages.preflight.transport,
                adapters=seen.adapters,
                memlock=seen.memlock,
                ipc_lock=seen.ipc_lock,
            )
        )
    return [*found, *judge_gpus(seen, settings)]


def judge_gpus(seen: PodFacts, settings: Settings) -> list[Finding]:
    """Judge the GPUs of the pod."""
    if seen.smi is None and seen.smi_error:
        remedy = "cordon the node: its driver or a GPU does not answer"
        return [failed("health", seen.smi_error, remedy)]
    if seen.smi is None:
        why = "nvidia-smi is missing from the pod, so its GPUs are not checked"
        return [warning("cards", why, "add utility to NVIDIA_DRIVER_CAPABILITIES")]
    own, wanted = visible(seen.smi.gpus, seen.visible), settings.launch.gpus_per_node
    if len(own) < wanted <= len(seen.smi.gpus):
        return [hidden(len(own), wanted, seen.visible)]
    return [
        *present(own, wanted, settings.stages.preflight.gpu),
        *healthy(own, wanted * settings.launch.place.nodes),
        *unused(own),
        driver(seen.smi, seen.torch_cuda),
    ]


def rdma(transport: str, *, adapters: int, memlock: int, ipc_lock: bool) -> Finding:
    """Check adapters and locked memory if NCCL must use RDMA.

    ``memlock`` is in bytes, -1 for no limit; the capability IPC_LOCK lifts it.
    """
    if not transport or transport.startswith(SOCKETS):
        return skipped("rdma", "the network is not RDMA")
    if not adapters:
        return failed(
            "rdma",
            f"{transport} is required, but the pod has no RDMA device in /dev/infiniband",
            "check network.resourceName and the device plugin's log on this node",
        )
    if 0 <= memlock < MEMLOCK and not ipc_lock:
        return failed(
            "rdma",
            f"locked memory is limited to {memlock // 1024} KiB, without IPC_LOCK",
            "keep the capability and user 0 of the network profile, or raise the memlock limit",
            code=Exit.CONFIG,
        )
    limit = "unlimited" if memlock < 0 or ipc_lock else f"{memlock / GIB:.0f} GiB"
    return ok("rdma", f"{adapters} RDMA devices, locked memory {limit}")


def shm(size: int) -> Finding:
    """Check /dev/shm of a pod with GPUs; ``size`` in bytes, 0 if it is not mounted."""
    seen = f"/dev/shm has {size / GIB:.2f} GiB"
    if size >= SHM:
        return ok("shm", seen)
    return failed("shm", seen, "set sharedMemory.sizeLimit to 16Gi or more", code=Exit.CONFIG)


def interfaces(named: Mapping[str, str], there: Sequence[str]) -> Finding:
    """Check that the pod has interfaces that a variable names; otherwise NCCL or gloo fails.

    NCCL takes a list of which one is enough: beginnings of names, whole names after ``=``, others
    than these after ``^``. Gloo needs each of its whole names.

    >>> [interfaces({name: value}, ["lo", "eth0"]).state for name, value in (
    ...     ("NCCL_SOCKET_IFNAME", "en,eth"), ("NCCL_SOCKET_IFNAME", "=eth"),
    ...     ("NCCL_SOCKET_IFNAME", "^lo"), ("GLOO_SOCKET_IFNAME", "eth0,ib0"))]
    ['ok', 'failed', 'ok', 'failed']
    """
    for name, value in named.items():
        is_gloo = name.startswith("GLOO")
        is_whole = is_gloo or value.startswith("=")
        words = value.lstrip("=").split(",")
        known = [any(t == w if is_whole else t.startswith(w) for t in there) for w in words]
        if not value.startswith("^") and not (all(known) if is_gloo else any(known)):
            seen = f"{name}={value} is none of the pod's interfaces: {', '.join(there)}"
            return failed(
                "interfaces", seen, f"set one of them, or remove {name}", code=Exit.CONFIG
            )
    return ok("interfaces", ", ".join(named.values()) or "chosen by NCCL and gloo")


def disk(free: int | None, needed: int | None) -> Finding:
    """Check the workspace's free space, in bytes; None: its file system does not state it.

    ``needed`` bytes will still be written by checkpoints (``plan_file.remaining_bytes``).
    """
    if free is None:
        return ok("disk", "the file system states no free space")
    seen = f"{free / 1e9:.0f} GB free"
    if needed is None:
        return ok("disk", seen)
    seen += f", {needed / 1e9:.0f} GB needed by the checkpoints"
    if free >= needed:
        return ok("disk", seen)
    remedy = "free space on the workspace, enlarge it, or lower recipe.args.save_total_limit"
    return failed("disk", seen, remedy, code=Exit.QUOTA)


def file_system(lacks: Mapping[str, int], has_caches: bool) -> list[Finding]:
    """Judge the operations of the workspace's file system.

    Without renaming no output can be completed. The packages of the hubs lock files of their
    caches by flock and fail without it, unless the kernel says ENOSYS (filelock ``_unix.py``). Hard
    links are replaced: the lock of a run by a file created exclusively, the export by a copy.
    ``lacks``: operation to its errno, 0 if there is none.
    """
    found = []
    for name in (RENAME, LOCK, LINK):
        if not (number := lacks.get(name, 0)):
            continue
        seen = f"the workspace has no {name}: {os.strerror(number)} ({errno.errorcode[number]})"
        if name == RENAME or (name == LOCK and has_caches and number != errno.ENOSYS):
            found.append(failed("filesystem", seen, _REMEDY[name], code=Exit.CONFIG))
        else:
            found.append(warning("filesystem", seen, _REMEDY[name]))
    return found or [ok("filesystem", ", ".join(lacks) or "not tried")]


def caches(shared: Mapping[str, bool], nodes: int) -> Finding:
    """Check that the hubs' caches are on the workspace; otherwise each node tokenises on its own.

    ``shared``: variable to whether its folder is on the workspace.
    """
    own = sorted(name for name, is_shared in shared.items() if not is_shared)
    if own and nodes > 1:
        seen = f"{' and '.join(own)} {'is' if len(own) == 1 else 'are'} not on the shared workspace"
        return warning("caches", seen, "do not set these variables; the chart does")
    return ok("caches", "shared" if shared and not own else "one node, or not set")


def versions(found: Mapping[str, str | None], backend: Backend | None) -> Finding:
    """Check the packages that a backend needs.

    A version is empty if unknown, None if not installed; ``backend`` None without a recipe.
    """
    seen, image = [], []
    for name, (_, first, beyond) in REQUIRED_PACKAGES.get(backend or "script", {}).items():
        version = found.get(name)
        if (backend, name) == ("megatron", "torch"):
            beyond = beyond_torch(found.get("ms-swift") or "")
        if version is None:
            seen.append(f"{name} is not installed")
        elif version and not parse_version(first) <= parse_version(version) < parse_version(beyond):
            seen.append(f"{name} is {version}")
        else:
            continue
        image.append(f"{name} >= {first}, < {beyond}")
    if seen:
        text = f"{', '.join(seen)}; backend {backend} requires {'; '.join(image)}"
        return failed("versions", text, "use an image that has them", code=Exit.CONFIG)
    states = {None: "missing", "": "of unknown version"}
    listed = ", ".join(f"{name} {states.get(version, version)}" for name, version in found.items())
    return ok("versions", listed or "none required")


def patches(verdicts: Sequence[Verdict]) -> Finding:
    """Judge patches of upstream: training refuses to start with a refused one."""
    refused = [each for each in verdicts if each.state == "refused"]
    aside = [each.patch.name for each in verdicts if each.state == "stepped aside"]
    if refused:
        error = refused[0].error()
        others = ", ".join(each.patch.name for each in refused[1:])
        seen = f"{error.cause}; also refused: {others}" if others else error.cause
        return failed("patches", seen, error.remedy, code=Exit.CONFIG)
    if aside:
        return warning("patches", f"stepped aside: {', '.join(aside)}", "training is slower")
    dates = sorted({each.proved for each in verdicts if each.proved})
    on = f", {sum(map(bool, (v.proved for v in verdicts)))} proved on {dates[-1]}" if dates else ""
    return ok("patches", f"{len(verdicts)} fit the image's packages{on}")


def stack(never_run: Sequence[str]) -> Finding:
    """Warn about packages that no GPU run of this project has had.

    >>> stack(["torch 2.12.0"]).seen
    'never run on a GPU by this project: torch 2.12.0'
    """
    if not never_run:
        return ok("stack", "each package has had a GPU run of this project")
    remedy = "compare the first losses with those of a known stack"
    return warning("stack", f"{NEVER_RUN}: {', '.join(never_run)}", remedy)


def present(gpus: Sequence[Gpu], wanted: int, model: GpuModel | None) -> list[Finding]:
    """Check number and model of the GPUs.

    A model other than ``gpuModel`` on all GPUs is an error in the values (exit 78), since a restart
    would meet it again. Two models in one pod are a fault of the node (exit 80).
    """
    kinds = Counter(gpu.name for gpu in gpus)
    seen = ", ".join(f"{count} x {name}" for name, count in sorted(kinds.items())) or "no GPU"
    if len(gpus) < wanted:
        return [failed("cards", f"{seen}, but gpusPerNode is {wanted}", _DRAIN)]
    if len(kinds) > 1:
        return [failed("cards", f"{seen}: different GPU models in one pod", _DRAIN)]
    if model is not None and next(iter(kinds)) not in model.smi:
        return [_other(next(iter(kinds)), model)]
    if len(gpus) > wanted:
        many = f"{seen}, but gpusPerNode is {wanted}"
        return [warning("cards", many, "let the device plugin assign the pod only its own GPUs")]
    return [ok("cards", seen)]


def hidden(own: int, wanted: int, chosen: str | None) -> Finding:
    """Judge a variable that hides GPUs of a healthy node.

    >>> hidden(4, 8, "0,1,2,3").code.name
    'CONFIG'
    """
    seen = f"CUDA_VISIBLE_DEVICES={chosen} leaves {own} GPUs to {wanted} processes"
    remedy = f"unset it, or set DPO_GPUS_PER_NODE and NPROC_PER_NODE to {own}"
    return failed("cards", seen, remedy, code=Exit.CONFIG)


def _other(name: str, model: GpuModel) -> Finding:
    found = gpu_models.by_smi_name(name)
    write = f"set gpuModel: {found.name}" if found else 'set gpuModel: ""'
    return failed(
        "cards",
        f"the GPUs are {name}, but gpuModel is {model.name}",
        f"{write}, or a nodeSelector for nodes that have this GPU",
        code=Exit.CONFIG,
    )


def healthy(gpus: Sequence[Gpu], processes: int) -> list[Finding]:
    """Check for memory errors and faults; warn about clocks limited by the hardware.

    ``processes`` of the gang: one alone may train on an instance of a GPU that MIG divides.
    """
    found = []
    for gpu in gpus:
        faults = list(gpu.faults)
        if gpu.uncorrected:
            faults.insert(0, f"{gpu.uncorrected} uncorrected memory errors")
        if gpu.is_divided and processes > 1:
            faults.append("it is divided by MIG, and NCCL connects no instances: nvidia-smi -mig 0")
        if faults:
            found.append(failed("health", "; ".join(faults), _DRAIN, who=gpu.label))
        elif gpu.slowed:
            slowed = f"the hardware throttles its clocks: {', '.join(gpu.slowed)}"
            found.append(warning("health", slowed, "check power and cooling", who=gpu.label))
    return found or [ok("health", f"{len(gpus)} GPUs without errors")]


def unused(gpus: Sequence[Gpu]) -> list[Finding]:
    """Check that no other process holds a GPU's memory, which would cause out-of-memory errors."""
    found = [
        failed(
            "idle",
            f"{gpu.used_mib} of {gpu.memory_mib} MiB are used by another process",
            "end the processes of earlier jobs on this node: a run needs its GPUs exclusively",
            who=gpu.label,
        )
        for gpu in gpus
        if gpu.used_mib > IN_USE * gpu.memory_mib
    ]
    return found or [ok("idle", f"at most {max((g.used_mib for g in gpus), default=0)} MiB used")]


def driver(smi: Smi, cuda: str | None) -> Finding:
    """Check the driver against the CUDA that the image's torch was built with.

    Within a major release any driver of that release works (NVIDIA, CUDA Compatibility, "minor
    version compatibility"); otherwise the driver must be newer.
    ``cuda`` is ``torch.version.cuda``; empty without CUDA, None if unknown.
    """
    seen = f"driver {smi.driver} (CUDA {smi.cuda}), image CUDA {cuda or 'unknown'}"
    if cuda == "":
        return failed(
            "driver",
            "the image's torch was built without CUDA",
            "use an image with CUDA, or set gpusPerNode: 0",
            code=Exit.CONFIG,
        )
    if cuda is None or not smi.cuda[:1].isdigit():
        return warning("driver", seen, "check the versions of driver and image")
    if int(cuda.partition(".")[0]) > int(smi.cuda.partition(".")[0]):
        remedy = f"use nodes with a newer driver, or an image with CUDA {smi.cuda}"
        return failed("driver", seen, remedy)
    return ok("driver", seen)
