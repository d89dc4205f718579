"""A key of GnuPG that signs a release in a test."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "signer@dpo.test"


@contextmanager
def made(home: Path) -> Iterator[Path]:
    """Make a key in a GnuPG home of its own, which the block's programs use; skip without GnuPG.

    Yields:
        The public keyring, as Helm reads it.
    """
    if shutil.which("gpg") is None:
        pytest.skip("no gpg on PATH")
    home.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNUPGHOME", str(home))
        gpg = ["gpg", "--batch", "--quiet", "--passphrase", ""]
        key = ["--quick-generate-key", USER, "rsa3072", "sign", "never"]
        subprocess.run([*gpg, "--pinentry-mode", "loopback", *key], check=True, capture_output=True)
        public = home / "public.gpg"
        subprocess.run([*gpg, "--output", str(public), "--export", USER], check=True)
        yield public
        subprocess.run(["gpgconf", "--kill", "all"], check=True)
