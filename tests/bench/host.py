"""The GPU host: its description, its environment, and programs that end their children."""

import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from launchers.config import gpu_models
from launchers.config.gpu_models import GpuModel
from launchers.system.process import Stopped, raise_on_signals

HOME = Path("/data/dpo")
"""Root of everything that goes through the launcher."""
ENV = {
    # the training stack's own folder
    "PYTHONPATH": "/opt/swift-site",
    # required by this host for programs that use NVLink
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
PACKAGES = (
    "torch",
    "ms-swift",
    "megatron-core",
    "transformer-engine",
    "mcore-bridge",
    "apex",
    "flash-attn",
)


def about() -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except OSError:  # no nvidia-smi: no GPUs
        text = ""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpus": [gpu for gpu in text.split("\n") if gpu],
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def gpu_model(gpus: Sequence[str]) -> GpuModel:
    """Return the model of the host's first GPU, of the GPUs of ``about``."""
    name = gpus[0].split(",")[0].strip()
    found = gpu_models.by_smi_name(name)
    if found is None:
        raise ValueError(f"{name} is not in launchers/config/gpu_models.py: its peak is not known")
    return found


def commit() -> str:
    """Return the checkout's commit; empty if it is not known."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return ""


def version(package: str) -> str:
    """Return an installed package's version; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def run(program: Callable[[], int]) -> int:
    """Run a program of this folder; return its code, or 128 and the signal that stopped it.

    It can import the host's stack. SIGTERM and SIGINT are raised in it as ``Stopped``, so that it
    ends its children.
    """
    sys.path.append(ENV["PYTHONPATH"])
    raise_on_signals(lambda _: None)
    try:
        return program()
    except Stopped as stopped:
        return 128 + stopped.number
