from pathlib import Path

import pytest

from launchers.config.gpu_models import GPU_MODELS
from launchers.exits import Exit
from launchers.preflight.nvidia_smi import Gpu, Smi, parse_smi, visible
from launchers.preflight.pod_checks import (
    caches,
    disk,
    driver,
    healthy,
    interfaces,
    present,
    rdma,
    shm,
    unused,
    versions,
)
from launchers.preflight.probes import REQUIRED_PACKAGES, gather, torch_cuda
from tests.launchers.preflight.nvidia_smi import answer, gpu

MEGATRON = {"torch": "2.11.0+cu130", "ms-swift": "4.4.1", "megatron-core": "0.18.0"}
MEGATRON |= {"mcore-bridge": "1.6.0", "transformer-engine": "2.12.0"}


@pytest.mark.parametrize(
    ("transport", "adapters", "memlock", "ipc_lock", "state", "code"),
    [
        ("NET/IB", 8, -1, False, "ok", None),
        ("NET/IB", 8, 65536, True, "ok", None),
        ("NET/IB", 8, 65536, False, "failed", Exit.CONFIG),
        ("NET/IB", 0, -1, True, "failed", Exit.PREFLIGHT),
        ("NET/Libfabric", 0, -1, True, "failed", Exit.PREFLIGHT),
        ("NET/Socket", 0, 65536, False, "skipped", None),
        ("NET/FasTrak", 0, 65536, False, "skipped", None),
        ("", 0, 65536, False, "skipped", None),
    ],
)
def test_rdma_needs_adapters_and_locked_memory(
    transport: str, adapters: int, memlock: int, ipc_lock: bool, state: str, code: Exit | None
) -> None:
    found = rdma(transport, adapters=adapters, memlock=memlock, ipc_lock=ipc_lock)
    assert found.state == state
    assert code in (None, found.code)


def test_a_containers_default_shared_memory_is_too_small() -> None:
    found = shm(64 << 20)
    assert (found.state, found.code) == ("failed", Exit.CONFIG)
    assert found.seen == "/dev/shm has 0.06 GiB" and shm(16 << 30).state == "ok"


def test_the_disk_is_judged_where_the_need_is_known() -> None:
    assert disk(10, None).state == "ok"
    found = disk(900 * 10**9, 1281 * 10**9)
    assert (found.state, found.code) == ("failed", Exit.QUOTA)
    assert found.seen == "900 GB free, 1281 GB needed by the checkpoints"


def test_caches_of_each_pods_own_are_a_warning_in_a_gang() -> None:
    mixed = {"HF_HOME": True, "MODELSCOPE_CACHE": False}
    assert caches(mixed, 2).seen.startswith("MODELSCOPE_CACHE is ")
    assert caches(mixed, 2).state == "warning"
    assert caches(mixed, 1).state == caches({"HF_HOME": True}, 2).state == "ok"


def test_packages_that_the_backend_needs() -> None:
    newer = {"torch": "2.13.0+cu130", "ms-swift": "4.5.3"}
    trusted = {"megatron-core": ""}  # without a version
    first = {"megatron-core": "0.16.0rc1"}
    for change in ({}, newer, trusted, first):
        assert versions({**MEGATRON, **change}, "megatron").state == "ok"
    found = versions({**MEGATRON, **newer, "ms-swift": "4.4.2"}, "megatron")
    assert "torch >= 2.6, < 2.12" in found.seen
    assert set(MEGATRON) == set(REQUIRED_PACKAGES["megatron"])


@pytest.mark.parametrize(
    ("package", "version", "words"),
    [
        ("megatron-core", "0.15.3", "megatron-core is 0.15.3; backend megatron requires"),
        ("megatron-core", "0.20.0rc0", "megatron-core is 0.20.0rc0"),
        ("megatron-core", "0.20.0", "requires megatron-core >= 0.16, < 0.20"),
        ("torch", "2.12.0+cu130", "torch is 2.12.0+cu130"),  # each Megatron save would fail
        ("ms-swift", "3.12.5", "ms-swift is 3.12.5"),
        ("transformer-engine", None, "transformer-engine is not installed"),
    ],
)
def test_a_wrong_package_is_the_images(package: str, version: str | None, words: str) -> None:
    found = versions({**MEGATRON, package: version}, "megatron")
    assert (found.state, found.code) == ("failed", Exit.CONFIG)
    assert words in found.seen
    assert "use an image" in found.remedy


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'", "13.0"),
        ("cuda = '12.8'", "12.8"),
        ("cuda: Optional[str] = None", ""),
        ("hip = None", None),
    ],
)
def test_torchs_cuda_is_read_from_its_file(tmp_path: Path, line: str, cuda: str | None) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '2.11.0'\n{line}\n")
    assert torch_cuda(tmp_path) == cuda
    assert torch_cuda(tmp_path / "nowhere") is None


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    env = {"HF_HOME": str(tmp_path / "ws" / "cache"), "MODELSCOPE_CACHE": "/nowhere"}
    env |= {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": ""}
    facts = gather(env, tmp_path / "ws", "transformers", gpus=True)
    assert (facts.smi, facts.smi_error) == (None, "")  # no PATH, no nvidia-smi
    assert facts.caches == {"HF_HOME": True, "MODELSCOPE_CACHE": False}
    assert facts.free
    found = interfaces(facts.named, facts.interfaces)
    assert (found.state, found.code, "lo" in found.seen) == ("failed", Exit.CONFIG, True)
    assert (facts.named, interfaces({}, ()).state) == ({"GLOO_SOCKET_IFNAME": "ib0"}, "ok")
    assert facts.memlock == -1 or facts.memlock > 0
    assert set(facts.versions) == {"torch", "ms-swift"}


def gpus(*parts: str) -> tuple[Gpu, ...]:
    return parse_smi(answer(parts)).gpus


def test_an_answer_is_read() -> None:
    """Also between warnings, as of a GPU whose infoROM is damaged."""
    said = "WARNING: infoROM is corrupted at gpu 0000:1B:00.0\n"
    smi = parse_smi(f"{said}{answer([gpu(0), gpu(1, used='5000 MiB')])}{said}")
    assert (smi.driver, smi.cuda, len(smi.gpus)) == ("580.159.04", "13.0", 2)
    assert smi.gpus[1].label == "GPU 1 (GPU-1, 00000000:11:00.0)"
    assert (smi.gpus[1].memory_mib, smi.gpus[1].used_mib) == (143771, 5000)
    assert healthy(smi.gpus, 2)[0].state == unused(smi.gpus)[0].state == "ok"


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
    [found] = healthy(gpus(gpu(0), gpu(1, **{field: value})), 2)
    assert (found.state, found.code) == ("failed", Exit.PREFLIGHT)
    assert found.who == "GPU 1 (GPU-1, 00000000:11:00.0)"
    assert words in found.seen


def test_fields_that_a_gpu_lacks_are_not_a_fault() -> None:
    fields = ("fabric_state", "gpu_recovery_action", "dram_uncorrectable", "remapped_row_pending")
    assert [f.state for f in healthy(gpus(gpu(0, **dict.fromkeys(fields, "N/A"))), 1)] == ["ok"]


def test_one_process_may_train_on_a_part_of_a_gpu() -> None:
    own = visible(gpus(gpu(0, current_mig="Enabled")), "MIG-1")
    assert [f.state for f in (*healthy(own, 1), *present(own, 1, None))] == ["ok", "ok"]


def test_held_down_clocks_are_a_warning() -> None:
    [found] = healthy(gpus(gpu(0, hw_thermal_slowdown="Active")), 1)
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
