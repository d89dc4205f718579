"""The GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping


def devices(caller: Mapping[str, str]) -> list[str]:
    """The caller's CUDA_VISIBLE_DEVICES, else all GPUs that nvidia-smi lists."""
    given = caller.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [device.strip() for device in given.split(",") if device.strip()]
    if shutil.which("nvidia-smi") is None:
        return []
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return [str(i) for i, _ in enumerate(line for line in done.stdout.splitlines() if line)]
