"""Checks of this pod besides its GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launchers.config.recipe import Backend
from launchers.exits import Exit
from launchers.preflight.finding import Finding, failed, ok, skipped, warning

GIB = 1 << 30
SHM = GIB
"""Least /dev/shm of a pod with GPUs: what NVIDIA's NCCL guide asks for in containers
(``--shm-size=1g``); a container's own default of 64 MiB ends NCCL and data loaders by SIGBUS."""
MEMLOCK = GIB
"""Least locked memory for RDMA; 64 KiB and 8 MiB are the usual limits where nobody raised it."""
SOCKETS = ("NET/Socket", "NET/FasTrak", "NET/GPUDirectTCPX")
"""Transports that register no memory with an RDMA adapter."""

NEEDED: Mapping[Backend, Mapping[str, tuple[str, str, str]]] = {
    "megatron": {
        "torch": ("torch", "2.6", "3"),
        "ms-swift": ("swift", "4.0", "5"),
        "megatron-core": ("megatron.core", "0.16", "0.20"),
        "mcore-bridge": ("mcore_bridge", "1.0", "2"),
        "transformer-engine": ("transformer_engine", "2.3", "3"),
    },
    "transformers": {"torch": ("torch", "2.0", "3"), "ms-swift": ("swift", "4.0", "5")},
}
"""Package to its module, the first release that will do and the first that will not. Source: the
table of versions in ms-swift's docs/source_en/Megatron-SWIFT/Quick-start.md (megatron-core >=0.16,
<0.20), and this launcher's flags, which are those of ms-swift 4."""


def rdma(transport: str, *, adapters: int, memlock: int, ipc_lock: bool) -> Finding:
    """Check adapters and locked memory, where NCCL must use RDMA.

    Args:
        transport: what NCCL must send over.
        adapters: RDMA devices that the pod may open.
        memlock: limit of locked memory in bytes, -1 for none.
        ipc_lock: whether the pod has the capability IPC_LOCK, which lifts the limit.
    """
    if not transport or transport.startswith(SOCKETS):
        return skipped("rdma", "the network is not RDMA")
    if not adapters:
        return failed(
            "rdma",
            f"{transport} is wanted, and the pod has no RDMA device in /dev/infiniband",
            "see network.resourceName, and the device plugin's log on this node",
        )
    if 0 <= memlock < MEMLOCK and not ipc_lock:
        return failed(
            "rdma",
            f"locked memory is limited to {memlock // 1024} KiB, without IPC_LOCK",
            "leave the network profile's capability and user 0, or raise the runtime's memlock",
            code=Exit.CONFIG,
        )
    limit = "unlimited" if memlock < 0 or ipc_lock else f"{memlock / GIB:.0f} GiB"
    return ok("rdma", f"{adapters} RDMA devices, locked memory {limit}")


def shm(size: int) -> Finding:
    """Check /dev/shm of a pod with GPUs; ``size`` in bytes, 0 where it is not mounted.

    >>> shm(64 << 20).state, shm(16 << 30).state
    ('failed', 'ok')
    """
    seen = f"/dev/shm has {size / GIB:.2f} GiB"
    if size >= SHM:
        return ok("shm", seen)
    return failed("shm", seen, "raise sharedMemory.sizeLimit to 16Gi", code=Exit.CONFIG)


def disk(free: int, needed: int | None) -> Finding:
    """Check the workspace's free space.

    Args:
        free: bytes that this user may still write.
        needed: bytes that checkpoints will still take (``plan_file.room``).

    >>> disk(10 ** 12, 2 * 10 ** 12).code.name
    'QUOTA'
    """
    seen = f"{free / 1e9:.0f} GB free"
    if needed is None:
        return ok("disk", seen)
    seen += f", {needed / 1e9:.0f} GB needed by the checkpoints"
    if free >= needed:
        return ok("disk", seen)
    remedy = "free or enlarge the workspace, or lower recipe.args.save_total_limit"
    return failed("disk", seen, remedy, code=Exit.QUOTA)


def caches(shared: Mapping[str, bool], nodes: int) -> Finding:
    """Check whether the hubs' caches are on the workspace: else each node tokenises for itself.

    Args:
        shared: variable to whether its folder is on the workspace.
        nodes: pods of the gang.
    """
    own = sorted(name for name, is_shared in shared.items() if not is_shared)
    if own and nodes > 1:
        seen = f"{' and '.join(own)} of each pod {'is its' if len(own) == 1 else 'are their'} own"
        return warning("caches", seen, "leave these variables to the chart")
    return ok("caches", "shared" if shared and not own else "one node, or none set")


def versions(found: Mapping[str, str | None], backend: Backend | None) -> Finding:
    """Check the packages that a backend needs.

    Args:
        found: package to its version; empty when it is there without one, None when it is missing.
        backend: the recipe's; None where there is no recipe.
    """
    seen, image = [], []
    for name, (_, first, beyond) in (NEEDED[backend] if backend else {}).items():
        version = found.get(name)
        if version is None:
            seen.append(f"{name} is not installed")
        elif version and not _numbers(first) <= _numbers(version) < _numbers(beyond):
            seen.append(f"{name} is {version}")
        else:
            continue
        image.append(f"{name} >= {first}, < {beyond}")
    if seen:
        text = f"{', '.join(seen)}, and backend {backend} needs {'; '.join(image)}"
        return failed("versions", text, "write an image that has them", code=Exit.CONFIG)
    spelt = {None: "missing", "": "of unknown version"}
    told = ", ".join(f"{name} {spelt.get(version, version)}" for name, version in found.items())
    return ok("versions", told or "nothing asked for")


def _numbers(version: str) -> tuple[int, ...]:
    """Return a release's numbers.

    >>> _numbers("2.11.0+cu130") < _numbers("2.12"), _numbers("0.18.0rc1")
    (True, (0, 18, 0))
    """
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(n) for n in match.group(0).split(".")) if match else ()
