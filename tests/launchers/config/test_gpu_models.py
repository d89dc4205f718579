import pytest

from launchers.config.gpu_models import GPU_MODELS, by_name, by_smi_name
from launchers.exits import LaunchError


def test_gpu_models_are_known_by_what_nvidia_smi_prints() -> None:
    for gpu in GPU_MODELS.values():
        assert all(by_smi_name(f"{name}\n") == gpu for name in gpu.smi)
    assert by_smi_name("Tesla T4") is None


def test_an_unknown_gpu_model_names_the_known_ones() -> None:
    with pytest.raises(LaunchError, match=r"gpuModel.*'h300'.*a100") as refusal:
        by_name("h300")
    assert refusal.value.id == "gpu-model-unknown"
