"""Read the facts of this pod: nvidia-smi, limits, devices, disks, package versions."""

import contextlib
import errno
import fcntl
import importlib.util
import itertools
import os
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from launchers import logs
from launchers.config.rank import counting, no_number
from launchers.config.recipe import Backend
from launchers.config.settings import Settings
from launchers.exits import Exit, LaunchError
from launchers.preflight.nvidia_smi import Smi, parse_smi
from launchers.storage import disk
from launchers.storage.lock_owner import UNWRITTEN, is_dead, parse_owner, this_process
from launchers.system import lookup
from launchers.system.threads import in_thread
from launchers.upstream import source
from launchers.upstream.patches import Verdict
from launchers.upstream.record import never_run
from launchers.upstream.table import of_feature
from launchers.upstream.versions import parse_version

SMI = ("nvidia-smi", "-q", "-x")
SMI_TIMEOUT_SECONDS = 20.0
"""With eight GPUs nvidia-smi takes 1 to 3 s; with a hung GPU it never returns."""
_NO_DEVICES = "No devices were found"
"""What nvidia-smi says, with exit code 6, on a host with a driver and without a GPU."""
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))
"""Devices that a process with access to GPUs has: of NVIDIA, and of AMD."""
_SILENT = "nvidia-smi did not answer"
CACHES = ("MODELSCOPE_CACHE", "HF_HOME")
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
OPERATIONS_SECONDS = 45.0
"""Time for the operations on the workspace: more than ``lookup`` repeats each question."""
PROBE, OWNER = ".probe-", "owner"
"""Folders in which operations are tried, and the file in them that names the process."""
LEFT_SECONDS = 3600.0
"""Age of such a folder after which its preflight is over: 80 times its limit."""
RENAME, LINK, LOCK = "rename", "hard link", "lock"
"""Operations of the workspace's file system that the launcher or ms-swift's packages use."""
_UNSUPPORTED = (
    errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EINVAL, errno.ENOLCK,
    errno.ENOSYS, errno.EOPNOTSUPP, errno.EMFILE, errno.ENOTEMPTY,
)  # fmt: skip
"""Errors that say that a file system has no such operation; others say that it does not answer.
EMFILE: GCS FUSE limits the files of a folder that it renames (``rename-dir-limit``)."""
_IPC_LOCK = 14
"""Bit of CAP_IPC_LOCK in linux/capability.h."""


REQUIRED_PACKAGES: Mapping[Backend, Mapping[str, tuple[str, str, str]]] = {
    "megatron": {
        "torch": ("torch", "2.6", "3"),
        "ms-swift": ("swift", "4.0", "5"),
        "megatron-core": ("megatron.core", "0.16", "0.20"),
        "mcore-bridge": ("mcore_bridge", "1.0", "2"),
        "transformer-engine": ("transformer_engine", "2.3", "3"),
    },
    "transformers": {"torch": ("torch", "2.0", "3"), "ms-swift": ("swift", "4.0", "5")},
}
"""Module of each package, the first supported release and the first unsupported one. Source: the
table of versions in ms-swift's docs/source_en/Megatron-SWIFT/Quick-start.md (megatron-core >=0.16,
<0.20), and this launcher's flags, which are those of ms-swift 4. ``beyond_torch`` says more."""


def beyond_torch(swift: str) -> str:
    """Return the first torch that is not supported by the Megatron trainer of an ms-swift.

    With torch > 2.11 each of its saves fails (ms-swift issue 9896, pytorch issue 187432) before
    ms-swift 4.5.3, which returns what torch expects (``swift/megatron/init.py:
    _dcp_validation_returns_errors``).

    >>> beyond_torch("4.4.1"), beyond_torch(""), beyond_torch("4.6.0")
    ('2.12', '2.12', '3')
    """
    return "3" if parse_version(swift) >= parse_version("4.5.3") else "2.12"


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """Facts of one pod."""

    smi: Smi | None
    smi_error: str
    """Error of nvidia-smi; empty if it succeeded or is not installed."""
    torch_cuda: str | None
    memlock: int
    ipc_lock: bool
    adapters: int
    shm: int
    free: int | None
    caches: Mapping[str, bool]
    versions: Mapping[str, str | None]
    verdicts: tuple[Verdict, ...]
    """The run's patches of packages that are installed as distributions."""
    never_run: tuple[str, ...]
    """Installed packages that no GPU run of this project has had, with versions."""
    visible: str | None
    """CUDA_VISIBLE_DEVICES."""
    named: Mapping[str, str]
    """Values of the variables in ``INTERFACES`` that are set."""
    interfaces: tuple[str, ...]
    """Names of the pod's network interfaces."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """Errno of each operation that the workspace's file system lacks; 0 of one that it has."""


def gather(
    env: Mapping[str, str],
    workspace: Path,
    backend: Backend | None,
    *,
    gpus: bool,
    features: Sequence[str] = (),
    scratch: Path | None = None,
) -> PodFacts:
    """Read the facts.

    Operations are tried in ``scratch``, a folder on the workspace.

    Raises:
        LaunchError: IO, the workspace does not answer.
    """
    smi, error = ask(env) if gpus else (None, "")
    return PodFacts(
        smi=smi,
        smi_error=error,
        torch_cuda=torch_cuda(_module("torch")) if gpus else None,
        memlock=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        ipc_lock=_ipc_lock(),
        adapters=len(list(Path("/dev/infiniband").glob("uverbs*"))),
        shm=_size(Path("/dev/shm")),
        free=free(workspace),
        caches=_caches(env, workspace),
        versions={name: _version(name, row[0]) for name, row in _needed(backend).items()},
        verdicts=tuple(_judged(features)),
        never_run=tuple(never_run()),
        visible=env.get("CUDA_VISIBLE_DEVICES"),
        named={name: env[name] for name in INTERFACES if env.get(name)},
        interfaces=tuple(name for _, name in socket.if_nameindex()),
        operations={} if scratch is None else operations(scratch),
    )


def operations(scratch: Path) -> dict[str, int]:
    """Try the operations in a new folder in ``scratch``, which is made if it is missing.

    Returns:
        Operation to its errno; 0 if the file system has it.

    Raises:
        LaunchError: IO, the file system does not answer; OSError: the folder cannot be made.
    """
    try:
        return in_thread(lambda: _try(scratch), OPERATIONS_SECONDS)
    except TimeoutError:
        text = f"no answer for {OPERATIONS_SECONDS:.0f} s"
        raise lookup.unknown(OSError(errno.ETIMEDOUT, text), scratch) from None


def _try(folder: Path) -> dict[str, int]:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=PROBE, dir=folder, ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        (scratch / OWNER).write_text(this_process("preflight").text(), encoding="utf-8")
        _remove_left(folder, scratch.stat().st_mtime)
        one = scratch / "one"
        one.write_text("probe", encoding="utf-8")

        def rename() -> None:
            folder = scratch / "folder"
            shutil.rmtree(scratch / "moved", ignore_errors=True)
            folder.mkdir(exist_ok=True)
            for name in ("new", "old"):
                (folder / name).write_text("probe", encoding="utf-8")
            (folder / "new").rename(folder / "old")  # over a file
            folder.rename(scratch / "moved")  # with what it holds

        def lock() -> None:
            with one.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        tried = {LOCK: lock, LINK: lambda: os.link(one, scratch / "link"), RENAME: rename}
        return {name: _lacks(act, scratch) for name, act in tried.items()}


def _remove_left(folder: Path, now: float) -> None:
    """Remove what killed preflights have left; ``now`` is by the workspace's clock, as their times.

    Known to be left is what has an owner that has ended, or is too old for a preflight that runs.
    """
    found = (folder / name for name, is_dir in lookup.entries(folder).items() if is_dir)
    for left in (each for each in found if each.name.startswith(PROBE)):
        owner, status = parse_owner(lookup.text(left / OWNER) or ""), lookup.status(left)
        is_over = status is not None and now - status.st_mtime > LEFT_SECONDS
        if owner.token != UNWRITTEN and (is_over or is_dead(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _lacks(act: Callable[[], None], scratch: Path) -> int:
    def tried() -> int:
        try:
            act()
        except FileExistsError:
            return 0  # made by an earlier try, whose answer was lost
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return error.errno
        return 0

    return lookup.existing(tried, scratch)


def _judged(features: Sequence[str]) -> Iterator[Verdict]:
    """Judge the patches of features on the image's packages.

    A package without a version (sources on a path, or not installed) is left to the training
    processes, which judge what they import.
    """
    for verdict in filter(None, map(of_feature, features)):
        if all(source.version(each.package) for each in verdict.unknown):
            yield verdict


def ask(env: Mapping[str, str]) -> tuple[Smi | None, str]:
    """Run nvidia-smi; return its output or an error, neither if it is not installed."""
    program = shutil.which(SMI[0], path=env.get("PATH"))
    if program is None:
        return None, ""
    command, pipe = [program, *SMI[1:]], subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT)
    except OSError as error:  # of another architecture, or on a mount that is away
        return None, f"nvidia-smi does not start: {error}"
    try:
        output, _ = child.communicate(timeout=SMI_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()  # without waiting: blocked in the driver it may never exit
        return None, f"{_SILENT} within {SMI_TIMEOUT_SECONDS:.0f} s"
    text = output.decode(errors="replace")
    if child.returncode != 0:
        return (
            None,
            f"nvidia-smi failed with exit code {child.returncode}: {' '.join(text.split())[-300:]}",
        )
    try:
        return parse_smi(text), ""
    except ValueError as error:
        return None, str(error)


def torch_cuda(folder: Path | None) -> str | None:
    """Read ``torch.version.cuda`` without importing torch, which costs seconds.

    Returns:
        The version; empty for a torch without CUDA; None if it cannot be read.
    """
    try:
        text = (folder / "version.py").read_text(encoding="utf-8") if folder else ""
    except OSError:
        return None
    match = re.search(r"^cuda\b.*=\s*(?:'([\d.]+)'|None)", text, re.MULTILINE)
    return None if match is None else match.group(1) or ""


def _module(name: str) -> Path | None:
    """Locate a package's folder without importing it (only its parent)."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        if spec is not None:
            places = list(spec.submodule_search_locations or [])
            return Path(places[0]) if places else Path(spec.origin or "")
    return None


def _needed(backend: Backend | None) -> Mapping[str, tuple[str, str, str]]:
    return REQUIRED_PACKAGES.get(backend or "script", {"torch": ("torch", "", "")})


def _version(name: str, module: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None if _module(module) is None else ""


def locks_memory(status: str, uid_map: str) -> bool:
    r"""Return whether a process may lock memory beyond its limit.

    The kernel asks for the capability in the host's user namespace, which maps all users
    (``capable`` in drivers/infiniband/core/umem.c). ``status``, ``uid_map``: of ``/proc/self``.

    >>> whole, own = "0 0 4294967295", "0 65536 65536"
    >>> [locks_memory(f"CapEff:\t{cap}", users)
    ...  for cap, users in (("4000", whole), ("4000", own), ("0", whole))]
    [True, False, False]
    """
    match = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
    has = bool(match and int(match.group(1), 16) >> _IPC_LOCK & 1)
    return has and uid_map.split()[2:3] == ["4294967295"]


def _ipc_lock() -> bool:
    with contextlib.suppress(OSError):
        own = Path("/proc/self")
        return locks_memory((own / "status").read_text(), (own / "uid_map").read_text())
    return False


def _size(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).total
    return 0


def free(folder: Path) -> int | None:
    """Return ``disk.free`` of the volume of a folder, existing or not."""
    there = next((p for p in (folder, *folder.parents) if lookup.exists(p)), Path("/"))
    found = lookup.certain(lambda: [disk.free(there)], there)
    return found[0] if found else 0


def _caches(env: Mapping[str, str], workspace: Path) -> dict[str, bool]:
    root = os.path.realpath(workspace)
    places = {name: os.path.realpath(env[name]) for name in CACHES if env.get(name)}
    return {n: os.path.commonpath([root, place]) == root for n, place in places.items()}


def with_gpus(settings: Settings, env: Mapping[str, str]) -> Settings:
    """Return the settings with a process for each GPU that CUDA sees, unless a number was given.

    ``DPO_GPUS_PER_NODE=0`` trains on CPU. The pods of a JobSet always have the variable.

    Raises:
        LaunchError: PREFLIGHT, nvidia-smi does not answer; CONFIG, the starter's word asks for
            GPUs, and CUDA sees none.
    """
    if settings.launch.gpus_per_node or "DPO_GPUS_PER_NODE" in env:
        return settings
    gpus = count_gpus(env)
    if not gpus and (name := counting(env)) and env[name] == "gpu":
        raise no_number(name, env[name])
    if gpus:
        logs.info("GPUs counted, a process for each", gpus=gpus, change="DPO_GPUS_PER_NODE")
    return replace(settings, launch=replace(settings.launch, gpus_per_node=gpus))


def count_gpus(env: Mapping[str, str]) -> int:
    """Count the GPUs that CUDA would see on this host.

    CUDA ignores what follows the first invalid entry of ``CUDA_VISIBLE_DEVICES`` (CUDA C++
    Programming Guide, "CUDA Environment Variables"); ``-1`` hides all of them.

    >>> [count_gpus({"CUDA_VISIBLE_DEVICES": text}) for text in ("0,1", "", "-1", "0,-1,2")]
    [2, 0, 0, 1]

    Raises:
        LaunchError: PREFLIGHT, nvidia-smi does not answer.
    """
    chosen = env.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        words = (word.strip() for word in chosen.split(","))
        return len(list(itertools.takewhile(_is_device, words)))
    smi, error = ask(env)
    if smi is None and not error and any(map(lookup.exists, DRIVERS)):
        error = "this host has a GPU driver, and no nvidia-smi on PATH to count its GPUs"
    if error and _NO_DEVICES not in error:
        remedy = "check the host's NVIDIA driver, or set DPO_GPUS_PER_NODE; a container gets "
        remedy += "nvidia-smi with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        id = "nvidia-smi-timeout" if error.startswith(_SILENT) else "nvidia-smi-failed"
        raise LaunchError(Exit.PREFLIGHT, error, remedy, id=id)
    return len(smi.gpus) if smi else 0


def _is_device(word: str) -> bool:
    return word.isdecimal() or word.startswith(("GPU-", "MIG-"))
