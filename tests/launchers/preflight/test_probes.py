"""The number of GPUs of a bare host that states none."""

import os
from pathlib import Path

import pytest

from launchers.config.settings import from_env
from launchers.exits import Exit, LaunchError
from launchers.preflight import probes
from launchers.preflight.probes import with_gpus
from tests.launchers.preflight.nvidia_smi import answer, gpu, install

RUN = {"DPO_RUN": "r", "DPO_WORKSPACE": "/w"}


def host(folder: Path, script: str = "") -> dict[str, str]:
    """Return the environment of a host with two GPUs, or with an nvidia-smi that runs a script."""
    path = install(folder, answer([gpu(0), gpu(1)]), script=script)
    return {**RUN, "PATH": f"{path}:{os.environ['PATH']}"}


def gpus(env: dict[str, str]) -> int:
    return with_gpus(from_env(env), env).launch.gpus_per_node


def test_a_bare_host_trains_on_every_gpu_that_cuda_sees_or_as_many_as_it_says(
    tmp_path: Path,
) -> None:
    both = host(tmp_path)
    assert gpus(both) == 2
    for name, number in (("DPO_GPUS_PER_NODE", 0), ("DPO_GPUS_PER_NODE", 1), ("NPROC_PER_NODE", 4)):
        assert gpus({**both, name: str(number)}) == number
    assert gpus({**both, "CUDA_VISIBLE_DEVICES": "1"}) == 1
    assert gpus({**both, "CUDA_VISIBLE_DEVICES": ""}) == 0
    assert gpus({**both, "PET_NPROC_PER_NODE": "gpu"}) == 2
    assert gpus({**RUN, "PATH": "", "PET_NPROC_PER_NODE": "auto"}) == 0
    with pytest.raises(LaunchError, match="PET_NPROC_PER_NODE='gpu'"):
        gpus({**RUN, "PATH": "", "PET_NPROC_PER_NODE": "gpu"})
    assert gpus(host(tmp_path, "echo No devices were found; exit 6")) == 0


@pytest.mark.parametrize(
    ("script", "id"),
    [
        ("exec sleep 30", "nvidia-smi-timeout"),
        ("echo Driver/library mismatch; exit 18", "nvidia-smi-failed"),
        ("", "nvidia-smi-failed"),  # a container of compute without utility
    ],
)
def test_a_driver_without_an_answer_is_no_host_without_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, id: str
) -> None:
    monkeypatch.setattr(probes, "SMI_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(probes, "DRIVERS", (tmp_path,))
    with pytest.raises(LaunchError) as no:
        gpus(host(tmp_path, script) if script else {**RUN, "PATH": ""})
    assert (no.value.code, no.value.id) == (Exit.PREFLIGHT, id)
