"""`check --image` judges the packages of an image, without settings, workspace or GPU."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.upstream.patches import ACCEPT
from launchers.upstream.table import PATCHES
from tests.launchers.pods import ROOT
from tests.launchers.preflight import nvidia_smi

VERSIONS = {
    "torch": "2.11.0",
    "ms-swift": "4.4.1",
    "transformer-engine": "2.12.0",
    "megatron-core": "0.18.0",
    "mcore-bridge": "1.6.0",
}
MODULES = ("torch", "swift", "megatron.core", "mcore_bridge", "transformer_engine.pytorch")
ALL = ",".join(each.name for each in PATCHES)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return a folder with packages of the right versions, of which nothing is patched."""
    for name, version in VERSIONS.items():
        metadata = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for module in MODULES:
        folder = tmp_path / module.replace(".", "/")
        folder.mkdir(parents=True)
        for each in (folder, *folder.parents[: module.count(".")]):
            (each / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("cuda: str = '13.0'\n")
    return tmp_path


def check(image: Path, code: Exit = Exit.OK, **more: str) -> str:
    """Return what the command prints of an image's packages, without nvidia-smi by default."""
    paths = f"{image}:{ROOT}"
    env: Mapping[str, str] = {"PATH": "/nowhere", "PYTHONPATH": paths, ACCEPT: ALL, **more}
    words = [sys.executable, "-m", "launchers", "check", "--image"]
    done = subprocess.run(words, env=env, cwd=image, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    return done.stdout


def rows(output: str) -> dict[str, str]:
    lines = [line.split() for line in output.partition("\npatch ")[0].splitlines()]
    return {words[0]: words[1] for words in lines}


def test_an_image_that_can_train_passes(image: Path) -> None:
    said = check(image)
    expected = {"versions": "ok", "driver": "skipped", "imports": "ok", "patches": "ok"}
    assert rows(said) == expected and "image CUDA 13.0" in said


@pytest.mark.parametrize(
    ("file", "text", "check_name", "cause"),
    [
        ("megatron/core/__init__.py", "raise OSError('libcudnn.so.9')", "imports", "libcudnn.so.9"),
        (
            "mcore_bridge/__init__.py",
            "import os; os._exit(3)",
            "imports",
            "mcore_bridge: the process",
        ),
        ("swift/__init__.py", "", "patches", "merge-last"),
        (
            "ms_swift-4.4.1.dist-info/METADATA",
            "Name: ms-swift\nVersion: 3.9\n",
            "versions",
            "ms-swift is 3.9",
        ),
        ("torch/version.py", "cuda: str = None\n", "driver", "CUDA"),
    ],
    ids=["library", "process", "sources", "version", "no CUDA"],
)
def test_an_image_that_cannot_train_is_refused(
    image: Path, file: str, text: str, check_name: str, cause: str
) -> None:
    (image / file).write_text(text)
    said = check(image, Exit.CONFIG, **({ACCEPT: ""} if check_name == "patches" else {}))
    assert f"id=preflight-{check_name}" in said and cause in said


def test_the_drivers_library_is_not_needed_without_a_gpu(image: Path) -> None:
    text = "raise ImportError('libcuda.so.1: cannot open shared object file')"
    (image / "transformer_engine" / "pytorch" / "__init__.py").write_text(text)
    assert "transformer_engine.pytorch needs a host with a GPU" in check(image)


def test_on_a_host_with_gpus_the_driver_must_fit(image: Path, tmp_path: Path) -> None:
    answer = nvidia_smi.answer([nvidia_smi.gpu(0)], cuda="12.8")
    folder = nvidia_smi.install(tmp_path / "bin", answer)
    said = check(image, Exit.CONFIG, PATH=f"{folder}:{os.environ['PATH']}")
    assert "id=preflight-driver" in said and "12.8" in said


def test_a_host_whose_driver_does_not_answer_is_reported(image: Path, tmp_path: Path) -> None:
    folder = nvidia_smi.install(tmp_path / "bin", "", script="echo no driver; exit 9")
    said = check(image, PATH=f"{folder}:{os.environ['PATH']}")
    assert rows(said)["driver"] == "warning" and "no driver" in said
