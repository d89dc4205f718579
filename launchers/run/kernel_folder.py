"""Where what is compiled at run time is kept, kernels and bytecode, so that a later start finds it.

A folder of this node's own, ``<tmp>/megatron-dpo-jit-<uid>/<key>``, is what the compilers use; it
is filled from ``<workspace>/cache/jit/<key>/`` before training and archived there after its first
steps (``jit_archive``). The compilers do not share the workspace's folder itself:
- Triton (3.6 ``runtime/cache.py: FileCacheManager.put``) and Inductor (torch 2.11
  ``_inductor/codecache.py: write_atomic``) replace whole files, so many writers are safe, but they
  make, stat and read thousands of small files from every rank, which a network file system
  answers in milliseconds each;
- Inductor's C++ and ``torch.utils.cpp_extension`` wait on lock files (``utils/file_baton.py``):
  one that a killed rank has left on a shared volume hangs every later run;
- the driver's own cache locks its index by ``flock``, which not every NFS mount has.
An archive is one sequential read, and whole or refused.

The folder's path is the same in every container, as it must be: Triton's groups name their files
by absolute path (``put_group``). Nothing else in this path keeps kernels on disk: Transformer
Engine 2.12's nvrtc kernels (``common/util/rtc.cpp: KernelManager``) and cuDNN's live in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.preflight.nvidia_smi import Smi
from launchers.system.ms_swift import package_folder

PACKAGES = ("torch", "triton", "transformer_engine_torch", "megatron-core", "ms-swift")
"""Distributions whose code decides what is compiled."""
IMPORTED = ("torch", "transformers", "swift")
"""Packages that stand for all that a training process imports."""
MOST_THREADS = 8
"""Inductor's processes a rank; a step has some forty small kernels."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What compiled kernels depend on."""

    gpu: str
    """Product name; it fixes the compute capability."""
    driver: str
    cuda: str
    """Newest CUDA that the driver knows."""
    python: str
    versions: Mapping[str, str]


def gather(smi: Smi) -> Facts:
    """Collect the facts of this node; reads metadata files, imports nothing."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    names = sorted({gpu.name for gpu in smi.gpus})
    return Facts(
        gpu=" + ".join(names),
        driver=smi.driver,
        cuda=smi.cuda,
        python=f"{platform.python_version()} {platform.machine()}",
        versions=versions,
    )


def key_of(facts: Facts) -> str:
    """Name the cache of these facts: the GPU for people, a digest for the rest.

    >>> key_of(Facts(gpu="NVIDIA H200", driver="580", cuda="13.0", python="3.12", versions={}))
    'nvidia-h200-9698f07b0633'
    """
    text = json.dumps(asdict(facts), sort_keys=True)
    name = "-".join("".join(c if c.isalnum() else " " for c in facts.gpu.lower()).split())
    return f"{name[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def local_folder(key: str) -> Path:
    """Return this node's folder of a key: on a shared host nobody else may write it.

    Raises:
        LaunchError: CONFIG when another user has made it: what is in it would be run.
        OSError: it can't be made.
    """
    home = Path(tempfile.gettempdir()) / f"megatron-dpo-jit-{os.getuid()}"
    home.mkdir(parents=True, exist_ok=True)
    if home.lstat().st_uid != os.getuid():  # of a link its own
        raise LaunchError(Exit.CONFIG, f"{home} is another user's", "remove it, or set TMPDIR")
    home.chmod(0o700)
    return home / key


def has_bytecode() -> bool:
    """Tell whether the image's packages come with their bytecode.

    An image built with ``pip --no-compile`` or ``PYTHONDONTWRITEBYTECODE`` has none: then every
    process of every start compiles some 4,000 modules anew.
    """
    for package in (package_folder(name) for name in IMPORTED):
        if not Path(cache_from_source(str(package / "__init__.py"))).exists():
            return False
    return True


def variables(
    folder: Path,
    env: Mapping[str, str],
    *,
    run: str,
    warm: bool,
    cores: int,
    nproc: int,
    bytecode: bool = True,
) -> dict[str, str]:
    """Return the variables that point the compilers to ``folder``; what the user has set stays.

    Sources (torch 2.11, triton 3.6, CUDA 13):
    - ``TRITON_CACHE_DIR``: ``triton/knobs.py: cache_knobs``; without it Inductor keeps a folder
      for each device (``_inductor/runtime/cache_dir_utils.py: triton_cache_dir``).
    - ``TRITON_CACHE_AUTOTUNING``: keeps what ``triton.autotune`` has measured
      (``runtime/autotuner.py: check_disk_cache``); Transformer Engine tunes its permutations over
      seven block sizes each (``common/triton/permutation.py``).
    - ``TORCHINDUCTOR_CACHE_DIR``; ``TORCHINDUCTOR_FX_GRAPH_CACHE`` is on by default and set
      against an image that turns it off (``_inductor/config.py``). Megatron's ``jit_fuser`` is
      ``torch.compile`` (``megatron/core/jit.py``).
    - ``TORCHINDUCTOR_COMPILE_THREADS``: each rank would start one per core of the node
      (``_inductor/config.py: decide_compile_threads``). It is no part of a kernel's key.
    - ``TORCH_WARM_POOL``: with a warm cache these processes have nothing to do, and importing
      torch in them takes the cores from the ranks (``_inductor/async_compile.py``); they are
      started when the first kernel misses.
    - ``TORCH_COMPILE_JOB_ID``: lets Inductor keep which sizes vary (``torch/compiler/config.py:
      job_id``). Without it a restart, whose first pack has another length, first compiles for that
      length alone. Of this ``run`` only: another one's sizes would make slower kernels.
    - ``TORCH_EXTENSIONS_DIR``: ``utils/cpp_extension.py: _get_build_directory``.
    - ``PYTHONPYCACHEPREFIX`` where the packages have no ``bytecode``; the chart forbids to write
      any elsewhere. ``import swift.pipelines.train.rlhf`` took 15.4 s of CPU time without it, 5.5 s
      with it, 102 MB (Python 3.11, torch 2.11).
    - ``CUDA_CACHE_PATH``: what the driver compiles from PTX (CUDA C++ Programming Guide, CUDA
      Environment Variables); its own limit of 1 GiB stays.
    """
    wanted = {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_CACHE_AUTOTUNING": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": str(max(1, min(MOST_THREADS, cores // nproc))),
        "TORCH_COMPILE_JOB_ID": run,
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
        **({"TORCH_WARM_POOL": "0"} if warm else {}),
    }
    found = {name: value for name, value in wanted.items() if name not in env}
    if not bytecode and "PYTHONPYCACHEPREFIX" not in env:
        found["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        found["PYTHONDONTWRITEBYTECODE"] = ""
    return found
