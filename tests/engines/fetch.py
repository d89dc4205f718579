"""Fetches the files that our patches replace functions of, as released, into ``.tools/engines``.

These are Transformer Engine's of seven releases (``.tools/engines/VERSION``) and megatron-core's
(``.tools/engines/megatron-core-VERSION``), which can't be installed here: one needs a GPU's
libraries, the other another Python. ``python -m tests.engines.fetch`` in a few seconds: the wheels
have up to 280 MB each, so only these files of each are read, by requests of ranges. pip does it
(``.tools/engines/pip``, pinned in requirements.txt since these parts of it are private), with the
index, proxy and certificates that are configured for it. A file is taken only if its sha256 is that
of the file that was read when the patch was written.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".tools" / "engines"
PACKAGE = "transformer-engine-cu13"
WORDS = ("--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_28_x86_64")
CORE, CORE_VERSION = "megatron-core", "0.18.0"
FILE = "transformer_engine/pytorch/optimizers/fused_adam.py"
FILES: dict[str, dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("digests.json").read_text(encoding="utf-8")
)
"""The sha256 of each file by distribution and release. Transformer Engine 2.14.0 and 2.15.0 have
the files of 2.14.1, 2.16.0 those of 2.16.1, 2.17.0 and 2.18.0 those of 2.17.1."""
RELEASES = tuple(FILES[PACKAGE])
"""Of Transformer Engine, oldest first."""
Wheel = tuple[str, str]
"""Distribution and version."""


def files(wheel: Wheel) -> dict[str, str]:
    package, version = wheel
    return FILES[package][version]


def folder(wheel: Wheel) -> Path:
    package, version = wheel
    return ENGINES / (f"{package}-{version}" if package == CORE else version)


WHEELS: tuple[Wheel, ...] = (*((PACKAGE, version) for version in RELEASES), (CORE, CORE_VERSION))


def main() -> None:
    """Fetch the files of all wheels, unless they are there."""
    missing = [
        wheel for wheel in WHEELS if not all(_is_there(wheel, name) for name in files(wheel))
    ]
    if missing:
        sys.path.insert(0, str(ENGINES / "pip"))
        for wheel, name, data in _members(missing):
            if _sha256(data) != files(wheel)[name]:
                raise RuntimeError(f"{name} of {' '.join(wheel)} has sha256 {_sha256(data)}")
            target = folder(wheel) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def _is_there(wheel: Wheel, name: str) -> bool:
    target = folder(wheel) / name
    return target.exists() and _sha256(target.read_bytes()) == files(wheel)[name]


def _members(wheels: Iterable[Wheel]) -> Iterator[tuple[Wheel, str, bytes]]:
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._vendor.packaging.specifiers import SpecifierSet

    command = create_command("download")
    with command.main_context():
        options, _ = command.parse_args(list(WORDS))
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, make_target_python(options))
        for wheel in wheels:
            package, version = wheel
            found = finder.find_best_candidate(package, SpecifierSet(f"=={version}"))
            if found.best_candidate is None:
                raise RuntimeError(f"the package index has no {package} {version}")
            address = found.best_candidate.link.url_without_fragment
            with LazyZipOverHTTP(address, session) as remote, zipfile.ZipFile(remote) as archive:
                for name in files(wheel):
                    yield wheel, name, archive.read(name)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
