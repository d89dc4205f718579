"""Settings that Kubernetes accepts and that cannot be meant, judged on the rendered manifest."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from launchers.config.gpu_models import GPU_PRODUCT, by_product
from launchers.config.settings import SKIPS
from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from launchers.preflight.pod_checks import SHM
from launchers.refusal import Refusal
from launchers.suggestion import nearest
from launchers.yaml_file import read_yaml
from scripts.manifest import Release, ReplicatedJob
from scripts.quantity import parse_quantity
from scripts.values.names import renames
from scripts.values.text import QUOTES

SHORTEST_GRACE = 10.0
"""Seconds from SIGTERM to SIGKILL below which not even a small model ends a step and saves it."""
_QUOTES = re.compile(f"^[{QUOTES}«]|[{QUOTES}»]$")
_QUOTED = re.compile(r"""(["'])[\w^=:,./-]+\1""")
_GROUPS = {
    "variables": "nothing here reads it; {}",
    "accelerate": "accelerate reads it, while plan, checks and checkpoints follow recipe.args; {} "
    "instead",
    "debugging": "{}, which slows down each step; remove it once the fault is found",
}
"""Groups of ``renames.yaml``, and what is said of their variables."""
_FILES = re.compile(
    "NCCL_(TOPO|GRAPH|CONF)_FILE|SSL_CERT_FILE|(REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO"
)
_NCCL = Path(__file__).with_name("nccl.yaml")
_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"


def refusals(release: Release) -> list[Refusal]:
    """Return why the settings of a release cannot work."""
    env = release.gang.env
    found = []
    if all(env.get(name) == "1" for name in SKIPS.values()):
        says = "every stage is skipped, so that the pods would do nothing; set one to false"
        found.append(Refusal(id="stages-none", path="stages", says=says))
    found += _model(release.jobset.gpu_model, release.gang.pod.get("nodeSelector") or {})
    return [*found, *_transport(env), *_sizes(release.gang), *_slices(release.gang)]


def _model(wanted: str, selector: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield a node selector of another model than the preflight would let train."""
    label = selector.get(GPU_PRODUCT, "")
    found = by_product(label)
    if wanted and found and found.name != wanted:
        says = f"{wanted}, and nodeSelector takes nodes with {label}; use {found.name}, or other "
        yield Refusal(id="gpu-model-selector", path="gpuModel", says=f"{says}nodes")


def _slices(gang: ReplicatedJob) -> Iterator[Refusal]:
    """Yield MIG instances for several processes, which NCCL does not connect."""
    parts = [name for name in gang.requests if "/mig-" in name]
    if parts and gang.count * int(gang.env.get("DPO_GPUS_PER_NODE", "0")) > 1:
        says = f"{parts[0]} is a part of a GPU, and NCCL connects whole ones; use nvidia.com/gpu"
        yield Refusal(id="gpu-slices", path="gpuResource", says=says)


def _sizes(gang: ReplicatedJob) -> Iterator[Refusal]:
    """Yield a /dev/shm that the preflight would refuse, and disks that the kubelet would count."""
    env, skipped = gang.env, gang.env.get("DPO_PREFLIGHT_SKIP", "").split(",")
    is_checked = env.get("SKIP_PREFLIGHT") != "1" and env.get("DPO_GPUS_PER_NODE", "0") != "0"
    limit = ((gang.container.get("resources") or {}).get("limits") or {}).get("ephemeral-storage")
    for volume in gang.pod.get("volumes") or ():
        own = volume.get("emptyDir") or {}
        if not (size := own.get("sizeLimit")):
            continue
        if volume["name"] == "shm" and is_checked and "shm" not in skipped:
            if parse_quantity(size) < SHM:
                says = f"{size}, and NCCL and the loaders of data need 1Gi at least; use 16Gi"
                yield Refusal(id="shared-memory-small", path="sharedMemory.sizeLimit", says=says)
        elif limit and not own.get("medium") and parse_quantity(limit) < parse_quantity(size):
            says = (
                f"{limit}, and the kubelet evicts a pod whose volume {volume['name']} holds more, "
                f"which may be {size}; use a larger limit"
            )
            yield Refusal(id="storage-limit", path="resources.limits.ephemeral-storage", says=says)


def _transport(env: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield the variable by which NCCL would use another transport than the profile's.

    A plugin such as libfabric's does not read ``NCCL_IB_DISABLE``; gIB, made of NCCL's own, does.

    >>> def named(net: str, **env: str) -> list[str]:
    ...     given = {"DPO_NETWORK_TRANSPORT": f"NET/{net}", **env}
    ...     return [each.path for each in _transport(given)]
    >>> named("IB", NCCL_NET="Socket"), named("IB", NCCL_NET="IB", NCCL_IB_DISABLE="1")
    (['extraEnv.NCCL_NET'], ['extraEnv.NCCL_IB_DISABLE'])
    >>> named("Libfabric", NCCL_IB_DISABLE="1"), named("IB", NCCL_NET_PLUGIN="none")
    ([], [])
    >>> named("Libfabric", FI_PROVIDER="tcp"), named("gIB", NCCL_NET_PLUGIN="none")
    (['extraEnv.FI_PROVIDER'], ['extraEnv.NCCL_NET_PLUGIN'])
    """
    given = {name: value.strip() for name, value in env.items()}
    wanted, net = env.get("DPO_NETWORK_TRANSPORT", ""), given.get("NCCL_NET", "")
    own, provider = wanted.lower(), given.get("FI_PROVIDER", "")
    if not wanted:
        return
    if net and f"net/{net}".lower() != own:
        name, used = "NCCL_NET", f"NET/{net}"
    elif own in ("net/ib", "net/gib") and given.get("NCCL_IB_DISABLE") == "1":
        name, used = "NCCL_IB_DISABLE", "NET/Socket"
    elif own not in ("net/ib", "net/socket") and given.get("NCCL_NET_PLUGIN") == "none":
        name, used = "NCCL_NET_PLUGIN", "no plugin"
    elif own.endswith("libfabric") and provider in ("tcp", "sockets", "udp"):
        name, used = "FI_PROVIDER", f"libfabric's {provider}"
    else:
        return
    says = (
        f"NCCL would use {used}, and the network profile requires {wanted}, which the preflight "
        "asks for; remove it, or choose another network.profile"
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
    nccl = [f"NCCL_{name}" for name in read_yaml(_NCCL)]
    for name, value in gang.env.items():
        for group, words in _GROUPS.items():
            says = renames()[group].get(name, "")
            if says and (group != "debugging" or value.strip() not in ("", "0")):
                yield f"extraEnv.{name}: {words.format(says)}"
        is_known = name in nccl or name in renames()["variables"]
        if not is_known and (near := nearest(name, nccl)):
            yield f"extraEnv.{name}: nothing here reads it; the nearest is {near}"
        if name == "PATH":
            yield (
                "extraEnv.PATH: replaces the image's, and programs of its own folders, such as "
                "those of conda and CUDA, are not found; write all of them"
            )
        if _QUOTED.fullmatch(value):
            yield f"extraEnv.{name}: quotes are a part of the value; remove them"
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
    for name in filter(_FILES.fullmatch, gang.env):
        if gang.env[name].startswith("/") and gang.env[name] != _SYSTEM_CA:
            sources = [*sources, (f"extraEnv.{name}", f"file://{gang.env[name]}")]
    is_offline = gang.env.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    for key, text in sources:
        if _QUOTES.search(text):
            yield f"{key}: typographic quotes are a part of the source; use straight ones"
        try:
            source = parse_source(text, key)
        except LaunchError:
            continue
        if source.hub == "hf" and is_offline and gang.env.get(SKIPS["download"]) != "1":
            yield (
                f"{key}: HF_HUB_OFFLINE is set, and pods refuse to start if the workspace does not "
                "hold it yet; remove it from extraEnv, or set stages.download.skip: true"
            )
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
