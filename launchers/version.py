"""The identity of a launcher: its version, and a digest of its sources.

The chart hands the digest to the code that it brings (``DPO_LAUNCHER_DIGEST``), and to an image's
own code the version that it needs (``DPO_LAUNCHER_VERSION``). ``scripts/archive.py`` imports this
module, with the standard library alone.
"""

import hashlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from launchers.exits import Exit, LaunchError

DISTRIBUTION = "megatron-dpo"
"""Name of the Python distribution (``pyproject.toml``) that an image installs."""


def sources(package: Path) -> dict[str, bytes]:
    """Return the package's modules and data: relative POSIX path to content, sorted by path.

    Folders that begin with ``..`` are skipped: kubelet keeps a mounted ConfigMap's versions there.
    """
    found = {}
    for path in package.rglob("*"):
        name = path.relative_to(package)
        # compose.yaml, next to the packages, is not read by any module
        is_data = path.suffix == ".json" or (path.suffix == ".yaml" and len(name.parts) > 1)
        if (path.suffix == ".py" or is_data) and not any(
            part == "__pycache__" or part.startswith("..") for part in name.parts
        ):
            found[name.as_posix()] = path.read_bytes()
    return dict(sorted(found.items()))


def digest(files: Mapping[str, bytes]) -> str:
    r"""Return the SHA-256 of names and contents, in the order of the names.

    >>> digest({"a.py": b"1", "b.py": b""}) == digest({"b.py": b"", "a.py": b"1"})
    True
    >>> digest({"a.py": b"1"}) == digest({"a.py": b"2"})
    False
    """
    whole = hashlib.sha256()
    for name, content in sorted(files.items()):
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def own_digest(given: str = "") -> str:
    """Return the digest of the running launcher: the chart's, otherwise computed from its files."""
    return given or digest(sources(Path(__file__).parent))


def of_wheel(version: str) -> str:
    """Return a version of the chart (SemVer) as a wheel's name and metadata write it (PEP 440).

    >>> of_wheel("0.2.0-rc.1")
    '0.2.0rc1'
    """
    return version.replace("-rc.", "rc")


def check_installed(needed: str) -> None:
    """Check that an image's own launcher has the version that the chart needs.

    ``needed``: the chart's version; empty where the chart brings the launcher.

    Raises:
        LaunchError: CONFIG, naming both versions.
    """
    if needed and (found := _installed()) != of_wheel(needed):
        raise LaunchError(
            Exit.CONFIG,
            f"the image has launcher {found or '(not installed)'}, but the chart needs {needed}",
            f"install {DISTRIBUTION} {needed} in the image, or set launcher.from: chart",
            id="launcher-version",
        )


def _installed() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
