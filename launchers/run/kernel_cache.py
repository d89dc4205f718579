"""The cache of kernels that training compiles, so that later starts find them.

The compilers use a folder on the node's own disk, ``<tmp>/megatron-dpo-jit-<uid>/<key>``. It is
filled from ``<workspace>/cache/jit/<key>/`` before training and archived there after the first
steps (``kernel_archive``). The compilers do not use the workspace's folder itself:
- Triton (3.6 ``runtime/cache.py: FileCacheManager.put``) and Inductor (torch 2.11
  ``_inductor/codecache.py: write_atomic``) replace whole files, so many writers are safe, but they
  make, stat and read thousands of small files from every rank, each of which takes
  milliseconds on a network file system;
- Inductor's C++ and ``torch.utils.cpp_extension`` wait on lock files (``utils/file_baton.py``):
  a lock that a killed rank has left on a shared volume hangs every later run;
- the driver's own cache locks its index by ``flock``, which not every NFS mount supports.
An archive is one sequential read, and complete or rejected.

The folder's path must be, and is, the same in every container: Triton's groups name their files by
absolute path (``put_group``). No other library keeps kernels on disk: Transformer
Engine 2.12's nvrtc kernels (``common/util/rtc.cpp: KernelManager``) and cuDNN's live in memory.
"""

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launchers import logs
from launchers.config.settings import Launch, Settings
from launchers.exits import Exit, LaunchError
from launchers.preflight.nvidia_smi import Smi
from launchers.preflight.probes import ask
from launchers.run import kernel_archive
from launchers.storage import disk
from launchers.upstream import code_identity

PACKAGES = ("torch", "triton", "transformer_engine_torch", "megatron-core", "ms-swift")
"""Distributions whose code determines the compiled kernels."""
MAX_COMPILE_THREADS = 8
"""Limit of Inductor's processes a rank; a step has about forty small kernels."""


@dataclass(frozen=True, kw_only=True)
class KernelKey:
    """The hardware and software that compiled kernels depend on."""

    gpu: str
    """Product name; it fixes the compute capability."""
    driver: str
    cuda: str
    """Newest CUDA that the driver knows."""
    python: str
    versions: Mapping[str, str]
    """Of ``PACKAGES``; the compilers' own keys have the source of each kernel."""
    archive: int = 2
    """Format of the archives."""


def key_of_node(smi: Smi) -> KernelKey:
    """Return the key of this node; reads packages' metadata files, imports no package."""
    names = sorted({gpu.name for gpu in smi.gpus})
    return KernelKey(
        gpu=" + ".join(names),
        driver=smi.driver,
        cuda=smi.cuda,
        python=f"{platform.python_version()} {platform.machine()}",
        versions=code_identity.installed(PACKAGES),
    )


def folder_name(key: KernelKey) -> str:
    """Return the name of a key's folders: the GPU, readable, and a digest.

    >>> key = KernelKey(gpu="NVIDIA H200", driver="580", cuda="13.0", python="3.12", versions={})
    >>> folder_name(key)
    'nvidia-h200-63688dc2e822'
    """
    text = json.dumps(asdict(key), sort_keys=True)
    name = "-".join("".join(c if c.isalnum() else " " for c in key.gpu.lower()).split())
    return f"{name[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def local_folder(name: str) -> Path:
    """Return this node's folder of a key; on a shared host no other user may write to it.

    Raises:
        LaunchError: CONFIG when another user owns it: its content would be executed.
        OSError: when it cannot be created.
    """
    home = Path(tempfile.gettempdir()) / f"megatron-dpo-jit-{os.getuid()}"
    home.mkdir(parents=True, exist_ok=True)
    if home.lstat().st_uid != os.getuid():  # of a link: the owner of the link
        raise LaunchError(
            Exit.CONFIG,
            f"{home} belongs to another user",
            "remove it, or set TMPDIR to another folder",
            id="kernel-folder-owner",
        )
    home.chmod(0o700)
    return home / name


def variables(
    folder: Path, env: Mapping[str, str], *, run: str, warm: bool, cores: int, nproc: int
) -> dict[str, str]:
    """Return the variables that make the compilers use ``folder``; the user's own take precedence.

    Sources (torch 2.11, triton 3.6, CUDA 13):
    - ``TRITON_CACHE_DIR``: ``triton/knobs.py: cache_knobs``; without it Inductor keeps a folder
      for each device (``_inductor/runtime/cache_dir_utils.py: triton_cache_dir``).
    - ``TRITON_CACHE_AUTOTUNING``: keeps the measurements of ``triton.autotune``
      (``runtime/autotuner.py: check_disk_cache``); Transformer Engine tunes its permutations over
      seven block sizes each (``common/triton/permutation.py``).
    - ``TORCHINDUCTOR_CACHE_DIR``; ``TORCHINDUCTOR_FX_GRAPH_CACHE`` is on by default and set
      in case an image turns it off (``_inductor/config.py``). Megatron's ``jit_fuser`` is
      ``torch.compile`` (``megatron/core/jit.py``).
    - ``TORCHINDUCTOR_COMPILE_THREADS``: each rank would start one per core of the node
      (``_inductor/config.py: decide_compile_threads``). It is not part of a kernel's key.
    - ``TORCH_WARM_POOL``: with a warm cache these processes are idle, and importing torch in them
      takes CPU time from the ranks (``_inductor/async_compile.py``); they are
      started when the first kernel misses.
    - ``TORCH_COMPILE_JOB_ID``: lets Inductor remember which sizes vary (``torch/compiler/config.py:
      job_id``). Without it a restart, whose first pack has another length, first compiles for that
      length alone. Only for this ``run``: the sizes of another one would give slower kernels.
    - ``TORCH_EXTENSIONS_DIR``: ``utils/cpp_extension.py: _get_build_directory``; ninja compares the
      times of sources, so that other code has another folder.
    - ``CUDA_CACHE_PATH``: what the driver compiles from PTX (CUDA C++ Programming Guide, CUDA
      Environment Variables); its own limit of 1 GiB applies.
    """
    code = code_identity.identity(PACKAGES, env=env)
    wanted = {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_CACHE_AUTOTUNING": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": str(max(1, min(MAX_COMPILE_THREADS, cores // nproc))),
        "TORCH_COMPILE_JOB_ID": run,
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions" / code_identity.name(code)),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
        **({"TORCH_WARM_POOL": "0"} if warm else {}),
    }
    return {name: value for name, value in wanted.items() if name not in env}


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """The cache as training uses it; by default there is none."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the training processes."""
    save: Callable[[], None] = lambda: None
    """Archives the new kernels; never raises."""


def kernels(settings: Settings, smi: Smi | None, env: Mapping[str, str]) -> Kernels:
    """Fetch the kernels of earlier runs with the same GPUs and software."""
    if not settings.training.jit_cache or settings.launch.gpus_per_node == 0:
        return Kernels()
    found = smi or ask(env)[0]  # with the preflight skipped, nvidia-smi has not run yet
    if found is None:
        logs.warning("compiled kernels not kept", why="nvidia-smi lists no GPU")
        return Kernels()
    try:
        return _kernels(settings.launch, found, env)
    except (OSError, LaunchError) as error:
        logs.warning("compiled kernels not kept", cause=error)
        return Kernels()


def _kernels(launch: Launch, smi: Smi, env: Mapping[str, str]) -> Kernels:
    started = time.monotonic()
    key = folder_name(key_of_node(smi))
    folder, archives = local_folder(key), launch.work.jit(key)
    disk.note_use(archives)
    warm = kernel_archive.seed([archives / name for name in kernel_archive.NAMES], folder)
    known = kernel_archive.contents(folder)
    seconds = round(time.monotonic() - started, 2)
    logs.info("compiled kernels", key=key, files=len(known), seconds=seconds)
    own = kernel_archive.own_name(launch.place.rank, launch.place.nodes)
    found = variables(
        folder,
        env,
        run=launch.run,
        warm=warm,
        cores=len(os.sched_getaffinity(0)),
        nproc=launch.nproc_per_node,
    )
    if not own:
        return Kernels(env=found)
    return Kernels(
        env=found, save=lambda: _save(folder, archives / own, known, launch.pod or launch.run)
    )


def _save(folder: Path, archive: Path, known: Container[str], holder: str) -> None:
    """Archive the new kernels; an error is only logged."""
    started = time.monotonic()
    try:
        done = kernel_archive.publish(folder, archive, known, holder)
    except (OSError, ValueError, LaunchError) as error:
        logs.warning("compiled kernels not archived", cause=error)
        return
    logs.info("compiled kernels archived", done=done, seconds=round(time.monotonic() - started, 2))
