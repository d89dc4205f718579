"""scripts/image: the image has locked packages that have run here, user 1000 and no toolkit."""

import re

from launchers.upstream.record import KERNELS, RUN_ON_GPUS
from scripts.helm import ROOT

FOLDER = ROOT / "scripts" / "image"
BUILD, LAST = (FOLDER / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ${BASE}\n")
LOCK = (FOLDER / "requirements.txt").read_text(encoding="utf-8")


def test_its_packages_are_releases_that_have_run_on_gpus() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE))
    for name, releases in RUN_ON_GPUS.items():
        assert locked[name] in releases if name not in KERNELS else name not in locked
    engine = {locked[f"transformer-engine{part}"] for part in ("", "-cu13", "-torch")}
    assert len(engine) == 1 and "transformer-engine-cu12" not in locked


def test_every_package_is_locked_by_hash() -> None:
    for entry in re.split(r"\n(?=\S)", LOCK):
        if not entry.startswith("#"):
            assert "==" in entry and "--hash=sha256:" in entry, entry
    installs = re.findall(r"pip install .*", BUILD)
    assert len(installs) == 4
    own, *packages, wheel = installs
    uv = (ROOT / "scripts" / "tools" / "uv.sh").read_text(encoding="utf-8")
    version = re.search(r"^version=(\S+)$", uv, re.MULTILINE)
    assert version is not None and f"uv=={version[1]}" in own
    assert all("--require-hashes" in words for words in packages)
    assert "--no-index --find-links /tmp/wheels megatron-dpo" in wheel


def test_its_last_stage_runs_as_the_charts_user_and_judges_itself() -> None:
    instructions = re.findall(r"^([A-Z]+) (.*)", LAST, re.MULTILINE)
    names = [name for name, _ in instructions]
    user = names.index("USER")
    assert instructions[user] == ("USER", "1000:1000") and names.count("USER") == 1
    assert ("RUN", "python3 -m launchers check --image") in instructions[user:]
    assert [name for name in names if name in ("ADD", "COPY")] == ["COPY"]
    assert not re.search(r"nvcc|nvidia/cuda|pip install|g\+\+|build-essential", LAST)


def test_base_images_have_a_release_and_the_context_is_small() -> None:
    images = re.findall(r"^ARG \w+=(\S+):(\S+)$", BUILD, re.MULTILINE)
    assert len(images) == 2 and all(re.match(r"\d+\.\d+", tag) for _, tag in images)
    assert "--requirements /tmp/requirements.txt" in BUILD
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored == ["*", "!dist/*.whl", "!scripts/image/requirements.txt"]
