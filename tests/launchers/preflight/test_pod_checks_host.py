from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.preflight.pod_checks import caches, disk, interfaces, rdma, shm, versions
from launchers.preflight.probes import REQUIRED_PACKAGES, gather, torch_cuda

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
    assert facts.free > 0
    found = interfaces(facts.named, facts.interfaces)
    assert (found.state, found.code, "lo" in found.seen) == ("failed", Exit.CONFIG, True)
    assert (facts.named, interfaces({}, ()).state) == ({"GLOO_SOCKET_IFNAME": "ib0"}, "ok")
    assert facts.memlock == -1 or facts.memlock > 0
    assert set(facts.versions) == {"torch", "ms-swift"}
