from launchers.config.gpu_models import GPU_MODELS, by_smi_name


def test_gpu_models_are_known_by_what_nvidia_smi_prints() -> None:
    for gpu in GPU_MODELS.values():
        assert all(by_smi_name(f"{name}\n") == gpu for name in gpu.smi)
    assert by_smi_name("Tesla T4") is None
