"""The processes of one attempt of a JobSet: their order, commands, environments and GPUs."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers.preflight.probes import count_gpus
from scripts.local.environment import dereference, moved, resolve
from scripts.local.pods import Pod, expand, order, requested, share
from scripts.local.process import Start
from scripts.local.volumes import place, working_dir
from scripts.manifest import JobSet


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The resources of this machine for the pods."""

    python: Path
    """Replaces the image's python3."""
    folder: Path
    """Each pod gets `<folder>/<restart>/<pod>`."""
    caller: Mapping[str, str]
    gpu_resource: str = "nvidia.com/gpu"


def schedule_attempt(
    jobset: JobSet, machine: Machine, restarts: int, scratch: Path
) -> list[list[Start]]:
    """Return the processes to start in one attempt, in waves; create the pods' folders.

    ``scratch`` has a short path: a socket's, in a pod's /tmp, has at most 107 characters.
    """
    pods = expand(jobset, restarts)
    addresses = [pod.address for pod in pods]
    folders = {pod.name: scratch / str(number) for number, pod in enumerate(pods)}
    starts = []
    for names in order(jobset.jobs):
        wave = _with_gpus([pod for pod in pods if pod.job.name in names], machine)
        starts.append([_start(pod, jobset, machine, folders[pod.name], addresses) for pod in wave])
    return starts


def _with_gpus(pods: Sequence[Pod], machine: Machine) -> list[Pod]:
    counts = [requested(pod.job, machine.gpu_resource) for pod in pods]
    slices = share(counts, visible_gpus(machine.caller) if any(counts) else [])
    return [dataclasses.replace(pod, gpus=own) for pod, own in zip(pods, slices, strict=True)]


def visible_gpus(caller: Mapping[str, str]) -> list[str]:
    """Return the caller's CUDA_VISIBLE_DEVICES, or all GPUs that nvidia-smi lists.

    Raises:
        LaunchError: PREFLIGHT, nvidia-smi does not answer.
    """
    given = caller.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [device.strip() for device in given.split(",") if device.strip()]
    return [*map(str, range(count_gpus(caller)))]


def _start(
    pod: Pod, jobset: JobSet, machine: Machine, scratch: Path, addresses: Sequence[str]
) -> Start:
    folder = machine.folder / pod.attempt / pod.name
    folder.mkdir(parents=True)
    mounts = place(pod, folder, scratch, jobset.files)
    container = pod.job.container
    env = resolve(pod, machine.caller, jobset.config_maps, addresses, mounts)
    named = {"JOB_COMPLETION_INDEX", *(item["name"] for item in container.get("env") or [])}
    own = {name: value for name, value in env.items() if name in named}
    given = [*(container.get("command") or []), *(container.get("args") or [])]
    words = [moved(dereference(word, own), mounts) for word in given]
    if "/tmp" in mounts:
        env["TMPDIR"] = mounts["/tmp"]
    # Programs that the launcher starts by name are in the interpreter's bin folder.
    env["PATH"] = os.pathsep.join([str(machine.python.parent), env.get("PATH", os.defpath)])
    return Start(
        pod=pod,
        command=[str(machine.python) if word in ("python3", "python") else word for word in words],
        env=env,
        folder=folder,
        working_dir=working_dir(pod, (scratch, folder), mounts),
    )
