"""The chunked Adam step around the FusedAdam of each release of Transformer Engine that was read.

Upstream's source is its own (``.tools/engines``, fetched by tests/engines/fetch.py); what it calls
on a GPU stands in, on CPU (tests/engines/kernels.py).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.helm import ROOT
from tests.engines.fetch import ENGINES, FILE, RELEASES
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import PYTHON

pytestmark = pytest.mark.skipif(
    not PYTHON.exists() or not all((ENGINES / v / FILE).exists() for v in RELEASES),
    reason="no .tools/train or .tools/engines: run `make setup`",
)

WIDENS_ALL = "2.12.0"
"""Converts all narrow moments to fp32 by itself; later ones only if not both are bf16."""
LIMIT, TENSORS, LARGEST = 40, 3, 64
"""As tests/engines/steps.py sets them, and its largest weight."""
COPIED = {"first-bf16", "second-bf16", "fp16"}
ROUNDED = {"bf16", "bf16-master", "bf16-weights", *COPIED}
READ = ("__init__", "get_unscaled_state", "_apply_scale", "initialize_state")
CHANGED = {"step": "2.20.2", **dict.fromkeys(READ, "2.16.1")}
"""Functions that are replaced or relied on, and a release in which a line of each is changed."""


def lay(folder: Path, version: str, source: str) -> None:
    """Lay upstream's optimizer of a release among stand-ins of what it imports."""
    optimizers = "transformer_engine/pytorch/optimizers"
    files = {
        "transformer_engine_torch.py": (ROOT / "tests/engines/kernels.py").read_text(),
        FILE: source,
        f"{optimizers}/multi_tensor_apply.py": (
            "def multi_tensor_applier(op, noop, lists, *args): op(65536, noop, lists, *args)\n"
        ),
        "transformer_engine/pytorch/constants.py": "from transformer_engine_torch import DType\n",
        "transformer_engine/pytorch/quantized_tensor.py": "class QuantizedTensor: pass\n",
        "transformer_engine/pytorch/tensor/float8_tensor.py": (
            "class Float8Tensor: pass\nclass Float8Quantizer: pass\n"
        ),
    }
    fake_upstream.lay(folder, files)
    (folder / optimizers / "__init__.py").write_text("from .fused_adam import FusedAdam\n")
    info = folder / f"transformer_engine-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: transformer-engine\nVersion: {version}\n"
    )


def changed(version: str, name: str) -> str:
    """Return a release's source with a comment more in one function."""
    source = (ENGINES / version / FILE).read_text()
    begin = source.index(f"    def {name}(")
    end = source.index('"""', source.index('"""', begin) + 3) if name != "__init__" else 0
    at = source.index("\n", end or source.index("if amsgrad:", begin))
    return source[:at] + "  # new" + source[at:]


def run(*folders: Path, **extra: str) -> tuple[Any, str]:
    """Run all cases on the releases of these folders; return what was found and the log."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **extra}
    words = [str(PYTHON), "-W", "ignore", "-m", "tests.engines.steps", *map(str, folders)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what was found of each release, and of releases in which a function is changed."""
    folder = tmp_path_factory.mktemp("releases")
    for version in RELEASES:
        lay(folder / version, version, (ENGINES / version / FILE).read_text())
    for name, version in CHANGED.items():
        lay(folder / name, "2.21.0", changed(version, name))
    return run(*(folder / name for name in [*RELEASES, *CHANGED]))[0]


@pytest.mark.parametrize("version", RELEASES)
def test_the_step_in_parts_leaves_the_bits_of_upstreams_own(stepped: Any, version: str) -> None:
    for name, found in stepped[version].items():
        assert found["same"], name
        assert found["tensors"] >= 11 * 3
        ours, upstreams = found["steps"]
        assert ours == upstreams
        assert ours[0] == ours[2] == 5
        assert found["left"] == []


@pytest.mark.parametrize("version", RELEASES)
def test_the_step_is_that_of_adamw_in_fp64(stepped: Any, version: str) -> None:
    for name, found in stepped[version].items():
        # weights of up to 3 in fp32; or a moment that rounds to the other of two bf16 neighbours
        assert found["off"] < (2e-4 if name in ROUNDED else 2e-6), name


@pytest.mark.parametrize("version", RELEASES)
def test_parts_hold_few_tensors_and_few_copies(stepped: Any, version: str) -> None:
    for name, found in stepped[version].items():
        calls = found["calls"]
        assert max(call["tensors"] for call in calls) == TENSORS
        copied = name in COPIED or (version == WIDENS_ALL and name in ROUNDED)
        for call in calls:
            assert call["moments"] == ("float32" if copied or "fp32" in name else "bfloat16")
            assert not copied or call["elements"] <= LIMIT or call["tensors"] == 1
            # a copy lies elsewhere than the state; upstream's kernel has moments in place
            assert name in COPIED or call["places"] == (not copied)
        assert copied or max(call["elements"] for call in calls) > LARGEST


@pytest.mark.parametrize("name", CHANGED)
def test_a_source_that_was_not_read_is_refused_by_name(stepped: Any, name: str) -> None:
    code, said = stepped[name]
    assert code == "CONFIG"
    place = f"transformer_engine.pytorch.optimizers.fused_adam:FusedAdam.{name}"
    assert f"patch chunked-adam was not written for {place} of transformer-engine 2.21.0: " in said
    assert "its source is unknown (sha256 " in said
    assert "use an image with transformer-engine 2.12.0" in said
    assert "extraEnv.DPO_ACCEPT_PATCHES: chunked-adam" in said


def test_an_accepted_patch_is_installed_and_logged(stepped: Any, tmp_path: Path) -> None:
    lay(tmp_path / "2.21.0", "2.21.0", changed("2.20.2", "step"))
    found, log = run(tmp_path / "2.21.0", DPO_ACCEPT_PATCHES="other,chunked-adam")
    assert "patch chunked-adam accepted unknown=transformer_engine." in log
    assert 'fused_adam:FusedAdam.step versions="transformer-engine 2.21.0"' in log
    for name, case in found["2.21.0"].items():
        assert case["same"]
        assert len(case["calls"]) == len(stepped["2.20.2"][name]["calls"])
