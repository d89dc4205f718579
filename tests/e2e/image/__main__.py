"""`python -m tests.e2e.image`: build the image as .tools/cluster/images/e2e.tar, once.

Built from the Dockerfile if a container engine answers, otherwise with debootstrap. It contains no
training packages (5.5 GB): the tests mount .tools/train read-only at /opt/train, which a .pth file
makes importable.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from scripts.helm import ROOT
from scripts.problem import Problem
from tests.e2e.cluster import image_archive
from tests.e2e.cluster.cluster import choose
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.kind.engine import engine
from tests.e2e.image import debian

NAME = "localhost/megatron-dpo-e2e:1"
ARCHIVE = ROOT / ".tools" / "cluster" / "images" / "e2e.tar"
HERE = Path(__file__).parent
CONFIG = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
    "Cmd": ["python3"],
}


def main() -> None:
    """Build the image unless it exists with the same digest."""
    seal = ARCHIVE.with_suffix(".key")
    if ARCHIVE.exists() and seal.exists() and seal.read_text(encoding="ascii") == key():
        return
    print("setup: the image of the end-to-end tests, about a minute", flush=True)
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    seal.unlink(missing_ok=True)
    if choose("auto") == "kind":
        by_engine(ARCHIVE)
    else:
        by_debootstrap(ARCHIVE)
    seal.write_text(key(), encoding="ascii")


def key() -> str:
    """Return a digest of the files that the image depends on."""
    files = (HERE / "Dockerfile", HERE / "debian.py", Path(__file__))
    content = b"".join(file.read_bytes() for file in files) + train_python().encode()
    return hashlib.sha256(content).hexdigest()


def by_engine(target: Path) -> None:
    minor = train_python().removeprefix("python")
    run((engine(), "build", "--build-arg", f"PYTHON={minor}", "--tag", NAME, HERE))
    partial = target.with_suffix(".partial")
    partial.unlink(missing_ok=True)  # podman refuses to overwrite
    run((engine(), "save", "--output", partial, NAME))
    partial.replace(target)


def by_debootstrap(target: Path) -> None:
    """Build the image from the distribution's packages."""
    if shutil.which("debootstrap") is None:
        command = "apt-get install --no-install-recommends debootstrap"
        raise Problem(f"no debootstrap to build the image with; run `{command}`")
    suite, mirror = debian.distribution()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        root, layer = Path(folder) / "root", Path(folder) / "layer.tar"
        root.mkdir()
        run(debian.command(root, suite, mirror, train_python(), layer))
        image_archive.write(target, NAME, layer, CONFIG)


def train_python() -> str:
    """Return the interpreter of the training environment, such as python3.11."""
    found = [*(ROOT / ".tools" / "train" / "lib").glob("python3.*")]
    if len(found) != 1:
        raise Problem("no .tools/train to mount into the image; run `make setup`")
    return found[0].name


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        raise SystemExit(f"error: {problem}") from None
