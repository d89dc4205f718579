"""The number of GPUs of a bare host that states none."""

import os
from pathlib import Path

import pytest

from launchers.config.settings import from_env
from launchers.exits import Exit, LaunchError
from launchers.preflight import probes
from launchers.preflight.probes import with_gpus

RUN = {"DPO_RUN": "r", "DPO_WORKSPACE": "/w"}


@pytest.fixture
def host(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a host with two GPUs, one of them with a MIG device."""
    return {**RUN, "PATH": f"{smi(tmp_path, LISTED)}:{os.environ['PATH']}"}


LISTED = "echo 'GPU 0: H200 (UUID: GPU-1)'; echo '  MIG 1g.18gb (UUID: MIG-2)'; echo 'GPU 1: H200'"


def smi(folder: Path, script: str) -> Path:
    """Install an nvidia-smi that runs the script if it is asked for a list."""
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$*" = -L ] || exit 9\n{script}\n')
    program.chmod(0o755)
    return folder


def gpus(env: dict[str, str]) -> int:
    return with_gpus(from_env(env), env).launch.gpus_per_node


def test_a_bare_host_trains_on_every_gpu_that_cuda_sees(host: dict[str, str]) -> None:
    assert gpus(host) == 2
    assert gpus({**host, "CUDA_VISIBLE_DEVICES": "1"}) == 1
    assert gpus({**host, "CUDA_VISIBLE_DEVICES": ""}) == 0
    assert gpus({**RUN, "PATH": ""}) == 0


def test_a_number_that_was_given_counts(host: dict[str, str]) -> None:
    assert gpus({**host, "DPO_GPUS_PER_NODE": "0"}) == 0
    assert gpus({**host, "DPO_GPUS_PER_NODE": "1"}) == 1
    assert gpus({**host, "NPROC_PER_NODE": "4"}) == 4


def test_an_nvidia_smi_that_hangs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "SMI_TIMEOUT_SECONDS", 0.2)
    env = {**RUN, "PATH": f"{smi(tmp_path, 'exec sleep 30')}:{os.environ['PATH']}"}
    with pytest.raises(LaunchError) as no:
        gpus(env)
    assert (no.value.code, no.value.id) == (Exit.PREFLIGHT, "nvidia-smi-timeout")
