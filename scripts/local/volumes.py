"""A pod's file system on this machine: its volumes as folders below the pod's own folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.local.environment import localise
from scripts.local.pods import Pod
from scripts.manifest import Fields
from scripts.problem import Problem

SHARED_MEMORY = "/dev/shm"
TERMINATION_LOG = "/dev/termination-log"


def place(
    pod: Pod, folder: Path, scratch: Path, config_maps: Mapping[str, Mapping[str, bytes]]
) -> dict[str, str]:
    """Make the pod's volumes; return path in the pod -> path on this machine.

    ConfigMaps become files below `folder`, an emptyDir a folder below `scratch`. The host's
    /dev/shm is the pod's. A hostPath must have the same path in the pod, since a process sees the
    host's root.

    Raises:
        Problem: a volume that this machine can't stand for; it says what to write.
    """
    volumes = {volume["name"]: volume for volume in pod.job.pod.get("volumes") or []}
    mounts: dict[str, str] = {}
    for mount in pod.job.container.get("volumeMounts") or []:
        volume = volumes[mount["name"]]
        path: str = mount["mountPath"]
        if sources := _config_maps(volume):
            mounts[path] = _folder(inside(folder, path))
            for source in sources:
                _write(Path(mounts[path]), path, source, config_maps)
        elif "emptyDir" not in volume:
            _check_host_path(volume, mount)
            mounts[path] = path  # also when it lies below another mount, such as /tmp
        elif path != SHARED_MEMORY:
            mounts[path] = _folder(inside(scratch, path))
    log = pod.job.container.get("terminationMessagePath", TERMINATION_LOG)
    _folder(inside(folder, log).parent)
    return {**mounts, log: str(inside(folder, log))}


def _config_maps(volume: Mapping[str, Any]) -> list[Fields]:
    """Return the ConfigMaps of a volume; none of a projected one with sources of another kind."""
    sources = volume.get("projected", {"sources": [volume]})["sources"]
    return [each["configMap"] for each in sources if all("configMap" in one for one in sources)]


def _folder(path: Path) -> str:
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def inside(folder: Path, path: str) -> Path:
    """Return the path on this machine of the pod's absolute `path`.

    >>> inside(Path("/pods/a"), "/opt/launchers").as_posix()
    '/pods/a/opt/launchers'
    """
    return folder / path.lstrip("/")


def working_dir(pod: Pod, roots: Sequence[Path], mounts: Mapping[str, str]) -> Path:
    """Return the pod's workingDir: below the first root with a mount there, or the machine's."""
    path: str = pod.job.container.get("workingDir", "/")
    moved = localise(path, [], mounts)
    if moved != path:
        return Path(moved)
    made = [Path(target) for target in mounts.values()]
    for here in (inside(root, path) for root in roots):
        if any(target.is_relative_to(here) for target in made):
            return here
    return Path(path)


def _write(
    target: Path, path: str, source: Fields, config_maps: Mapping[str, Mapping[str, bytes]]
) -> None:
    data = config_maps.get(source["name"])
    if data is None:
        raise Problem(
            f"{path} is the ConfigMap {source['name']}, which the manifest does not hold; "
            "add it to the file given by --manifest"
        )
    for name, content in data.items():
        (target / name).write_bytes(content)


def _check_host_path(volume: Mapping[str, Any], mount: Fields) -> None:
    host = (volume.get("hostPath") or {}).get("path")
    kinds = ", ".join(sorted(volume.keys() - {"name"}))
    if host is None:
        raise Problem(
            f"volume {volume['name']} ({kinds}) at {mount['mountPath']} does not exist locally; "
            "leave it out, or make it a hostPath whose path is its mountPath"
        )
    if host != mount["mountPath"] or mount.get("subPath"):
        raise Problem(
            f"volume {volume['name']} mounts {host} at {mount['mountPath']}; locally both must be "
            f"the same: write mountPath: {host} and no subPath"
        )
    if not Path(host).exists():
        raise Problem(f"volume {volume['name']}: {host} does not exist; make the folder first")
