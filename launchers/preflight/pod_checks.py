"""The checks of one pod: which facts, which judgements."""

from __future__ import annotations

from collections.abc import Mapping

from launchers.config.recipe import Backend
from launchers.config.settings import Settings
from launchers.preflight import gpu_checks as gpu
from launchers.preflight import host_checks as host
from launchers.preflight.finding import Finding, failed, warning
from launchers.preflight.nvidia_smi import visible
from launchers.preflight.probes import Facts, gather


def facts(settings: Settings, backend: Backend | None, env: Mapping[str, str]) -> Facts:
    """Look at this pod, through the edge."""
    return gather(env, settings.work.root, backend, gpus=settings.gpus_per_node > 0)


def judge(
    seen: Facts, settings: Settings, backend: Backend | None, needed: int | None
) -> list[Finding]:
    """Judge what was seen; the GPUs' checks are left out on CPU.

    Args:
        seen: the facts.
        settings: the launcher's settings.
        backend: the recipe's; None where there is no recipe.
        needed: bytes that the checkpoints need; asked of rank 0 alone, since all write one volume.
    """
    place = settings.place
    found = [
        host.caches(seen.caches, place.nodes),
        host.versions(seen.versions, backend),
    ]
    if place.rank == 0:
        found.append(host.disk(seen.free, needed))
    if settings.gpus_per_node == 0:
        return found
    found.append(host.shm(seen.shm))
    if place.nodes > 1:
        found.append(
            host.rdma(
                settings.preflight.transport,
                adapters=seen.adapters,
                memlock=seen.memlock,
                ipc_lock=seen.ipc_lock,
            )
        )
    return [*found, *gpus(seen, settings)]


def gpus(seen: Facts, settings: Settings) -> list[Finding]:
    """Judge the GPUs."""
    if seen.smi is None and seen.smi_error:
        remedy = "cordon the node: its driver or a GPU does not answer"
        return [failed("health", seen.smi_error, remedy)]
    if seen.smi is None:
        why = "nvidia-smi is not in the pod, so its GPUs are not checked"
        return [warning("cards", why, "let NVIDIA_DRIVER_CAPABILITIES hold utility")]
    own = visible(seen.smi.gpus, seen.visible)
    return [
        *gpu.present(own, settings.gpus_per_node, settings.preflight.card),
        *gpu.healthy(own),
        *gpu.unused(own),
        gpu.driver(seen.smi, seen.torch_cuda),
        *gpu.told(seen.xids),
    ]
