"""Helm's provenance file of a package, signed with GnuPG.

https://helm.sh/docs/topics/provenance/: Chart.yaml and the package's SHA-256, clear-signed.
`helm package --sign` would sign the package that Helm itself writes, which is not reproducible.
"""

import hashlib
import tarfile
from pathlib import Path

import yaml

from scripts.problem import Problem, output_of


def message(package: Path) -> str:
    """Return the text that is signed."""
    with tarfile.open(package) as tar:
        held = tar.extractfile("megatron-dpo/Chart.yaml")
        assert held is not None
        chart = held.read().decode()
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    files = yaml.safe_dump({"files": {package.name: f"sha256:{digest}"}})
    return f"{chart.rstrip()}\n\n...\n{files}"


def sign(package: Path, key: str) -> Path:
    """Write PACKAGE.prov with a key of GnuPG; return its path.

    ``key``: name or fingerprint of a secret key in GnuPG's home.

    Raises:
        Problem: GnuPG is missing or cannot sign with it.
    """
    made = package.with_name(f"{package.name}.prov")
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--digest-algo", "SHA512"]
    try:
        failed = f"SIGN_KEY: gpg cannot sign with {key!r}: "
        command += ["--output", str(made), "--clearsign"]
        output_of(command, failed, given=message(package))
    except FileNotFoundError:
        raise Problem("SIGN_KEY: no gpg on PATH; install GnuPG") from None
    return made
