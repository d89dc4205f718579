"""Fetches Transformer Engine's FusedAdam, as released, into ``.tools/engines/VERSION``.

``python -m tests.engines.fetch`` in a few seconds: the wheels have 180 to 280 MB each, so only this
file of each is read, by requests of ranges. pip does it (``.tools/engines/pip``, pinned in
requirements.txt since these parts of it are private), with the index, proxy and certificates that
are configured for it. A file is taken only if its sha256 is that of the file that was read when
the patch was written.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".tools" / "engines"
PACKAGE = "transformer-engine-cu13"
WORDS = ("--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_28_x86_64")
FILE = "transformer_engine/pytorch/optimizers/fused_adam.py"
RELEASES = {
    "2.12.0": "1c522eb6d2f752d58f81a166d5d93c135c59078945bbbd124f96b033a9cc358e",
    "2.13.0": "ecdf227bfe930254cc16dbd2a40842d131e2d2e54f122461ae8c54671e82df97",
    "2.14.1": "c568493a65938d81863a2bac31230c5710051041ccb6ba010bcccaa164514beb",
    "2.16.1": "9bdfea0ff04fd2898220a6d5b61fb036904fd7ece4229d1ee6f4cfb863700504",
    "2.17.1": "e7d493f0bc05f4c64dd7dd192b3f5c9bc951588c7a3358017ee2fe8a6a04f3ce",
    "2.19.0": "b00894021874e862c50f66fd9090c12af8efd90044bd6d6c62835acf4f2046f3",
    "2.20.2": "9afe31d10a85871d377cee3efa004cd28bfd4152cdf70c19b2601dc5ae2bbfd6",
}
"""The sha256 of FILE by release. 2.14.0 and 2.15.0 have the file of 2.14.1, 2.16.0 that of 2.16.1,
2.17.0 and 2.18.0 that of 2.17.1."""


def main() -> None:
    """Fetch FILE of all releases, unless it is there.

    Raises:
        RuntimeError: the index lacks a release, or a file is not the one that was read.
    """
    missing = [version for version in RELEASES if not _is_there(version)]
    if missing:
        sys.path.insert(0, str(ENGINES / "pip"))
        for version, data in _members(missing):
            if _sha256(data) != RELEASES[version]:
                raise RuntimeError(f"{FILE} of {version} has sha256 {_sha256(data)}")
            target = ENGINES / version / FILE
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def _is_there(version: str) -> bool:
    target = ENGINES / version / FILE
    return target.exists() and _sha256(target.read_bytes()) == RELEASES[version]


def _members(versions: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield FILE of each release's wheel."""
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._vendor.packaging.specifiers import SpecifierSet

    command = create_command("download")
    with command.main_context():
        options, _ = command.parse_args(list(WORDS))
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, make_target_python(options))
        for version in versions:
            found = finder.find_best_candidate(PACKAGE, SpecifierSet(f"=={version}"))
            if found.best_candidate is None:
                raise RuntimeError(f"the package index has no {PACKAGE} {version}")
            address = found.best_candidate.link.url_without_fragment
            with LazyZipOverHTTP(address, session) as remote, zipfile.ZipFile(remote) as wheel:
                yield version, wheel.read(FILE)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
