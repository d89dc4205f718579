import os
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.config.settings import Settings, from_env
from launchers.preflight.nvidia_smi import parse_smi
from launchers.run import kernel_archive, kernel_cache
from launchers.run.kernel_archive import NAMES, contents, publish, seed
from launchers.run.kernel_cache import KernelKey, Kernels, folder_name, variables
from tests.launchers.preflight import nvidia_smi
from tests.launchers.training_environment import PYTHON, needs_training

NAME = NAMES[0]
FACTS = KernelKey(
    gpu="NVIDIA H200", driver="580", cuda="13.0", python="3.12", versions={"torch": "2.11.0"}
)
SMI = parse_smi(nvidia_smi.answer([nvidia_smi.gpu(0)], driver="580"))


OTHERS = {"gpu": "NVIDIA A100", "driver": "570", "cuda": "12.9", "python": "3.11"}


@pytest.mark.parametrize("fact", [*OTHERS, "versions"])
def test_other_facts_have_another_cache(fact: str) -> None:
    change: dict[str, Any] = {fact: OTHERS.get(fact, {"torch": "2.12.0"})}
    assert folder_name(replace(FACTS, **change)) != folder_name(FACTS)


def test_what_the_user_has_set_stays() -> None:
    given = {"TRITON_CACHE_DIR": "/mine"}
    found = variables(Path("/l"), given, run="r", warm=True, cores=16, nproc=4)
    assert "TRITON_CACHE_DIR" not in found
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "/l/inductor"
    assert found["TORCHINDUCTOR_COMPILE_THREADS"] == "4"
    assert found["TORCH_WARM_POOL"] == "0"
    assert "TORCH_WARM_POOL" not in variables(Path("/l"), {}, run="r", warm=False, cores=2, nproc=4)


def kernel(folder: Path, name: str = "triton/ABC/k.cubin", data: bytes = b"\x7fELF") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_what_one_node_compiled_the_next_one_finds(tmp_path: Path) -> None:
    one, two, archive = tmp_path / "one", tmp_path / "two", tmp_path / "w" / NAME
    assert not seed([archive], one)
    kernel(one)
    kernel(one, "triton/ABC/tmp.pid_7_x/k.cubin")
    kernel(one, "inductor/locks/a.lock")
    assert publish(one, archive, {}, "pod").startswith("1 files")
    assert seed([archive], two)
    assert (two / "triton/ABC/k.cubin").read_bytes() == b"\x7fELF"
    assert list(contents(two)) == ["triton/ABC/k.cubin"]
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
    assert [p.name for p in archive.parent.iterdir()] == [NAME]


def test_a_run_that_compiled_nothing_new_writes_nothing(tmp_path: Path) -> None:
    folder, archive = tmp_path / "one", tmp_path / "w" / NAME
    kernel(folder)
    assert publish(folder, archive, contents(folder), "pod") == "nothing new"
    assert not archive.exists()


@pytest.mark.parametrize("damage", ["cut", "tail", "bit", "text"])
def test_a_damaged_archive_is_passed_over_and_made_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, archive = tmp_path / "one", tmp_path / "two", tmp_path / "w" / NAME
    kernel(one, data=os.urandom(1 << 16))
    publish(one, archive, {}, "pod")
    data = bytearray(archive.read_bytes())
    if damage == "bit":
        data[len(data) // 2] ^= 1
    kept = {"cut": data[: len(data) // 2], "tail": data[:-3], "bit": data, "text": b"no gzip"}
    archive.write_bytes(bytes(kept[damage]))
    assert not seed([archive], two)
    assert contents(two) == {}
    assert "compiled kernels not read" in caplog.text
    kernel(two)
    assert publish(two, archive, {}, "pod").startswith("1 files")
    assert seed([archive], tmp_path / "three")


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    one, archive = tmp_path / "one", tmp_path / "w" / NAME
    kernel(one)
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(one / "triton/ABC/k.cubin", "../outside")
    assert not seed([archive], tmp_path / "two")
    assert not (tmp_path / "outside").exists()


GRAPHS = """
import sys, torch
twice = torch.compile(lambda rows: rows * 2, backend="eager")
for length in map(int, sys.argv[1:]):
    twice(torch.ones(length, 8))
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


@needs_training
def test_a_restart_knows_which_sizes_vary(tmp_path: Path) -> None:
    def compiled(run: str, *lengths: str) -> str:
        known = variables(tmp_path, {}, run=run, warm=True, cores=1, nproc=1)
        words = [str(PYTHON), "-c", GRAPHS, *lengths]
        return subprocess.check_output(words, env={**os.environ, **known}, text=True).strip()

    assert compiled("one", "100", "200") == "2"
    assert compiled("one", "300", "400") == "1"
    assert compiled("other", "300", "400") == "2"


def test_other_code_has_another_folder_of_extensions(tmp_path: Path) -> None:
    def place(text: str) -> str:
        (tmp_path / "module.py").write_text(text)
        env = {"PYTHONPATH": str(tmp_path)}
        found = variables(Path("/l"), env, run="r", warm=True, cores=1, nproc=1)
        return found["TORCH_EXTENSIONS_DIR"]

    assert place("1") == place("1") != place("2")


def test_a_damaged_archive_does_not_hide_the_other(tmp_path: Path) -> None:
    """The first node's is whole, the last one's torn: its files may not stay in part."""
    one, two, kept = tmp_path / "one", tmp_path / "two", tmp_path / "w"
    kernel(one, "triton/A")
    publish(one, kept / NAMES[0], {}, "pod")
    kernel(one, "triton/B", os.urandom(1 << 16))
    publish(one, kept / NAMES[1], {}, "pod")
    (kept / NAMES[1]).write_bytes((kept / NAMES[1]).read_bytes()[:-100])
    assert seed([kept / name for name in NAMES], two)
    assert list(contents(two)) == ["triton/A"]


def test_what_both_archives_hold_is_written_once(tmp_path: Path) -> None:
    one, two, kept = tmp_path / "one", tmp_path / "two", tmp_path / "w"
    for name in NAMES:
        kernel(one, "triton/A", name.encode())
        publish(one, kept / name, {}, "pod")
        kernel(one, "triton/B")
    assert seed([kept / name for name in NAMES], two)
    assert (two / "triton/A").read_bytes() == NAMES[0].encode()
    assert sorted(contents(two)) == ["triton/A", "triton/B"]


def test_first_and_last_node_fill_one_cache(tmp_path: Path, start: Callable[..., Kernels]) -> None:
    for rank in range(3):
        found = start(f"node-{rank}", NODE_RANK=str(rank), NNODES="3")
        kernel(Path(found.env["TRITON_CACHE_DIR"]), f"of-{rank}")
        found.save()
    later = start("later")
    assert sorted(p.name for p in Path(later.env["TRITON_CACHE_DIR"]).iterdir()) == ["of-0", "of-2"]


def test_too_much_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_archive, "MAX_BYTES", 3)
    kernel(tmp_path / "one")
    assert "too large to archive" in publish(tmp_path / "one", tmp_path / "w" / NAME, {}, "pod")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("skew", [0, 86_400])
def test_what_a_killed_writer_left_goes_and_a_living_one_is_left_alone(
    tmp_path: Path, skew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of the workspace: that of the node may be ahead."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + skew)
    archive = tmp_path / "w" / NAME
    kernel(tmp_path / "one")
    archive.parent.mkdir()
    old, new = (archive.with_name(f"{NAME}.partial-{who}") for who in ("old", "new"))
    for part in (old, new):
        part.touch()
    os.utime(old, (real() - 7200,) * 2)
    publish(tmp_path / "one", archive, {}, "pod")
    assert (old.exists(), new.exists()) == (False, True)


def settings(workspace: Path, **change: str) -> Settings:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(workspace), "DPO_GPUS_PER_NODE": "4"}
    place = {"NODE_RANK": "0", "NNODES": "1", "MASTER_ADDR": "h"}
    return from_env(env | place | change)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kernels]:
    """The kernels before a start of the run on a node."""

    def started(node: str, **change: str) -> Kernels:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / node))
        return kernel_cache.kernels(settings(tmp_path / "w", **change), SMI, {})

    return started


def test_a_start_after_a_start_is_warm(tmp_path: Path, start: Callable[..., Kernels]) -> None:
    cold = start("first")
    assert "TORCH_WARM_POOL" not in cold.env
    assert cold.env["TORCH_COMPILE_JOB_ID"] == "r"
    kernel(Path(cold.env["TRITON_CACHE_DIR"]), "ABC/k.cubin")
    cold.save()
    [kept] = (tmp_path / "w" / "cache" / "jit").iterdir()
    os.utime(kept, (0, 0))
    warm = start("second")
    assert kept.stat().st_mtime > 0  # unused entries are recognised by their age
    assert warm.env["TORCH_WARM_POOL"] == "0"
    assert (Path(warm.env["TRITON_CACHE_DIR"]) / "ABC/k.cubin").exists()
    assert str(tmp_path / "second") in warm.env["TRITON_CACHE_DIR"]


def test_what_another_user_has_laid_ready_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a host without containers anyone may make folders in /tmp."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = kernel_cache.local_folder("key").parent
    assert (mine.stat().st_mode & 0o777, mine.parent) == (0o700, tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    (tmp_path / "megatron-dpo-jit-4711").mkdir()
    assert kernel_cache.kernels(settings(tmp_path / "w"), SMI, {}).env == {}
    assert "megatron-dpo-jit-4711 belongs to another user" in caplog.text


def test_a_file_that_goes_while_it_is_archived_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(tmp_path / "one", "triton/A")
    kernel(tmp_path / "one", "triton/B")
    read = Path.read_bytes

    def read_once(path: Path) -> bytes:
        data = read(path)
        if path.name == "A":
            path.unlink()
        return data

    monkeypatch.setattr(Path, "read_bytes", read_once)
    publish(tmp_path / "one", tmp_path / "w" / NAME, {}, "pod")
    assert seed([tmp_path / "w" / NAME], tmp_path / "two")
    assert list(contents(tmp_path / "two")) == ["triton/B"]


def test_the_setting_and_a_run_without_gpus_keep_nothing(tmp_path: Path) -> None:
    assert kernel_cache.kernels(settings(tmp_path, DPO_JIT_CACHE="0"), SMI, {}).env == {}
    assert kernel_cache.kernels(settings(tmp_path, DPO_GPUS_PER_NODE="0"), SMI, {}).env == {}


def test_a_workspace_that_takes_nothing_costs_the_cache_only(
    tmp_path: Path, start: Callable[..., Kernels], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "w").write_text("no folder")
    found = start("tmp")
    if found.env:
        kernel(Path(found.env["TRITON_CACHE_DIR"]), "ABC/k.cubin")
    found.save()
    assert "not archived" in caplog.text or "not kept" in caplog.text


def test_the_key_names_the_gpu_and_the_software() -> None:
    facts = kernel_cache.key_of_node(SMI)
    assert facts.gpu == "NVIDIA H200" and folder_name(facts).startswith("nvidia-h200-")
