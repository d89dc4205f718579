"""Settings that Kubernetes accepts and that cannot be meant, judged on the rendered manifest."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from launchers.config.settings import SKIPS
from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from launchers.refusal import Refusal
from scripts.manifest import Release, ReplicatedJob
from scripts.values.names import renames
from scripts.values.text import QUOTES

SHORTEST_GRACE = 10.0
"""Seconds from SIGTERM to SIGKILL below which not even a small model ends a step and saves it."""
_QUOTES = re.compile(f"^[{QUOTES}«]|[{QUOTES}»]$")


def refusals(release: Release) -> list[Refusal]:
    """Return why the settings of a release cannot work."""
    env = release.gang.env
    found = []
    if all(env.get(name) == "1" for name in SKIPS.values()):
        says = "every stage is skipped, so that the pods would do nothing; set one to false"
        found.append(Refusal(id="stages-none", path="stages", says=says))
    found += _transport(env)
    return found


def _transport(env: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield the variable by which NCCL would use another transport than the profile's.

    >>> wanted = {"DPO_NETWORK_TRANSPORT": "NET/IB"}
    >>> [each.path for each in _transport(wanted | {"NCCL_NET": "Socket"})]
    ['extraEnv.NCCL_NET']
    >>> [each.path for each in _transport(wanted | {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "1"})]
    ['extraEnv.NCCL_IB_DISABLE']
    """
    wanted, net = env.get("DPO_NETWORK_TRANSPORT", "").lower(), env.get("NCCL_NET", "").strip()
    if not wanted:
        return
    if net and f"net/{net}".lower() != wanted:
        name, given = "NCCL_NET", net
    elif wanted != "net/socket" and env.get("NCCL_IB_DISABLE", "").strip() == "1":
        name, given = "NCCL_IB_DISABLE", "Socket"
    else:
        return
    says = (
        f"NCCL would use NET/{given}, and the network profile requires "
        f"{env['DPO_NETWORK_TRANSPORT']}, which the preflight asks for; remove it, or choose "
        "another network.profile"
    )
    yield Refusal(id="network-transport", path=f"extraEnv.{name}", says=says)


def warnings(release: Release, sources: list[tuple[str, str]]) -> list[str]:
    """Return what is accepted and has no effect, or another one than it seems.

    ``sources``: key and text of the recipe's model and datasets.
    """
    return [
        *_variables(release.gang),
        *_volumes(release),
        *_sources(release.gang, sources),
        *_times(release),
    ]


def _variables(gang: ReplicatedJob) -> Iterator[str]:
    for name, value in gang.env.items():
        if name in renames()["variables"]:
            yield f"extraEnv.{name}: nothing here reads it; {renames()['variables'][name]}"
        if name in renames()["accelerate"]:
            yield (
                f"extraEnv.{name}: accelerate reads it, while plan, checks and checkpoints follow "
                f"recipe.args; {renames()['accelerate'][name]} instead"
            )
        if name == "PATH":
            yield (
                "extraEnv.PATH: replaces the image's, and programs of its own folders, such as "
                "those of conda and CUDA, are not found; write all of them"
            )
        if _QUOTES.search(value):
            yield (
                f"extraEnv.{name}: typographic quotes are a part of the value; use straight ones"
            )


def _volumes(release: Release) -> Iterator[str]:
    pods = [job.pod for job in release.jobset.jobs]
    named = {volume["name"] for pod in pods for volume in pod.get("volumes") or ()}
    mounted = {
        mount["name"]
        for pod in pods
        for each in (*pod["containers"], *(pod.get("initContainers") or ()))
        for mount in (*(each.get("volumeMounts") or ()), *(each.get("volumeDevices") or ()))
    }
    for name in sorted(named - mounted):
        yield (
            f"extraVolumes: {name} is mounted in no container; add an entry of extraVolumeMounts "
            "with its name and a mountPath"
        )


def _sources(gang: ReplicatedJob, sources: list[tuple[str, str]]) -> Iterator[str]:
    mounts = [
        PurePosixPath(mount["mountPath"]) for mount in gang.container.get("volumeMounts") or ()
    ]
    for key, text in sources:
        if _QUOTES.search(text):
            yield f"{key}: typographic quotes are a part of the source; use straight ones"
        try:
            source = parse_source(text, key)
        except LaunchError:
            continue
        if source.hub != "file":
            continue
        if not any(PurePosixPath(source.repo).is_relative_to(mount) for mount in mounts):
            yield (
                f"{key}: {source.repo} is below no mount of the pods, so that it must be in the "
                "image; put it on the workspace, or mount its folder by extraVolumes and "
                "extraVolumeMounts"
            )


def _times(release: Release) -> Iterator[str]:
    if release.gang.grace < SHORTEST_GRACE:
        yield (
            f"terminationGracePeriodSeconds: {release.gang.grace:g} is too short to end a step and "
            "save it, so that a preemption loses the steps since the last checkpoint; use 300"
        )
    if release.jobset.manifest["spec"].get("ttlSecondsAfterFinished") == 0:
        yield (
            "ttlSecondsAfterFinished: 0 deletes the run with its pods, logs and events as soon as "
            "it ends, and a GitOps tool would start it again; use 86400, or null to keep it"
        )
