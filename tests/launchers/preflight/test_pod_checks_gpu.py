import pytest

from launchers.config.gpu_models import GPU_MODELS
from launchers.exits import Exit
from launchers.preflight.nvidia_smi import Gpu, Smi, parse_smi, visible
from launchers.preflight.pod_checks import driver, healthy, kernel_log, present, unused
from tests.launchers.preflight.nvidia_smi import answer, gpu


def gpus(*parts: str) -> tuple[Gpu, ...]:
    return parse_smi(answer(parts)).gpus


def test_an_answer_is_read() -> None:
    smi = parse_smi(answer([gpu(0), gpu(1, used="5000 MiB")]))
    assert (smi.driver, smi.cuda, len(smi.gpus)) == ("580.159.04", "13.0", 2)
    assert smi.gpus[1].label == "GPU 1 (GPU-1, 00000000:11:00.0)"
    assert (smi.gpus[1].memory_mib, smi.gpus[1].used_mib) == (143771, 5000)
    assert healthy(smi.gpus)[0].state == unused(smi.gpus)[0].state == "ok"


def test_what_is_no_xml_is_reported() -> None:
    with pytest.raises(ValueError, match="XML"):
        parse_smi("Failed to initialize NVML: Driver/library version mismatch")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dram_uncorrectable", "1", "1 uncorrected memory errors"),
        ("sram_uncorrectable_secded", "2", "2 uncorrected memory errors"),
        ("remapped_row_pending", "Yes", "row remap is pending"),
        ("remapped_row_failure", "Yes", "row remap has failed"),
        ("sram_threshold_exceeded", "Yes", "exceed their threshold"),
        ("fabric_state", "In Progress", "nvidia-fabricmanager"),
        ("gpu_recovery_action", "Reset", "driver requests: Reset"),
        ("current_mig", "Enabled", "divided by MIG"),
    ],
)
def test_a_faulty_gpu_is_named(field: str, value: str, words: str) -> None:
    [found] = healthy(gpus(gpu(0), gpu(1, **{field: value})))
    assert (found.state, found.code) == ("failed", Exit.PREFLIGHT)
    assert found.who == "GPU 1 (GPU-1, 00000000:11:00.0)"
    assert words in found.seen


def test_fields_that_a_gpu_lacks_are_not_a_fault() -> None:
    fields = ("fabric_state", "gpu_recovery_action", "dram_uncorrectable", "remapped_row_pending")
    assert [f.state for f in healthy(gpus(gpu(0, **dict.fromkeys(fields, "N/A"))))] == ["ok"]


def test_held_down_clocks_are_a_warning() -> None:
    [found] = healthy(gpus(gpu(0, hw_thermal_slowdown="Active")))
    assert (found.state, "hw thermal slowdown" in found.seen) == ("warning", True)


ONE, TWO = (gpu(0),), (gpu(0), gpu(1))
MIXED = (gpu(0), gpu(1, product_name="NVIDIA H100 80GB HBM3"))
T4 = (gpu(0, product_name="Tesla T4"),)


@pytest.mark.parametrize(
    ("there", "wanted", "model", "state", "code", "says"),
    [
        (ONE, 2, "", "failed", Exit.PREFLIGHT, "1 x NVIDIA H200, but gpusPerNode is 2"),
        ((), 2, "", "failed", Exit.PREFLIGHT, "no GPU, but gpusPerNode is 2"),
        (TWO, 2, "a100-80g", "failed", Exit.CONFIG, "; set gpuModel: h200, or a nodeSelector"),
        (T4, 1, "h200", "failed", Exit.CONFIG, '; set gpuModel: ""'),
        (MIXED, 2, "h200", "failed", Exit.PREFLIGHT, ""),
        (TWO, 2, "h200", "ok", None, ""),
        (TWO, 1, "h200", "warning", None, ""),
    ],
)
def test_the_gpus_of_a_pod_are_those_of_the_values(
    there: tuple[str, ...], wanted: int, model: str, state: str, code: Exit | None, says: str
) -> None:
    """Fewer or other ones of a node are its fault; another GPU model is the user's mistake."""
    [found] = present(gpus(*there), wanted, GPU_MODELS.get(model))
    assert found.state == state and code in (None, found.code)
    assert says in f"{found.seen}; {found.remedy}"


def test_memory_that_is_taken_names_the_gpu() -> None:
    [found] = unused(gpus(gpu(0), gpu(1, used="30000 MiB")))
    assert (found.state, found.who[:5]) == ("failed", "GPU 1")
    assert found.seen.startswith("30000 of 143771 MiB")


@pytest.mark.parametrize(
    ("cuda", "image", "state", "code"),
    [
        ("13.0", "13.0", "ok", None),
        ("12.4", "12.8", "ok", None),  # minor version compatibility
        ("12.4", "13.0", "failed", Exit.PREFLIGHT),
        ("13.0", "", "failed", Exit.CONFIG),
        ("13.0", None, "warning", None),
        ("N/A", "13.0", "warning", None),
    ],
)
def test_the_driver_must_know_the_images_cuda(
    cuda: str, image: str | None, state: str, code: Exit | None
) -> None:
    found = driver(Smi(driver="550.1", cuda=cuda, gpus=()), image)
    assert found.state == state
    assert code in (None, found.code)


def test_cuda_visible_devices_chooses_by_index_and_uuid() -> None:
    all_of_them = gpus(gpu(0), gpu(1), gpu(2))
    assert [g.index for g in visible(all_of_them, "2,0")] == [2, 0]
    assert [g.index for g in visible(all_of_them, "GPU-1")] == [1]
    assert visible(all_of_them, "") == ()
    assert visible(all_of_them, None) == all_of_them


def test_errors_in_the_kernels_log_warn_only() -> None:
    found = kernel_log(["NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."] * 6)
    assert [f.state for f in found] == ["warning"] * 4
