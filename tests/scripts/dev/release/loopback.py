"""A registry on loopback, and Helm with folders of its own."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.helm import ROOT
from tests.chart.helm import require

REGISTRY = ROOT / ".tools" / "cluster" / "bin" / "registry"


@contextmanager
def serving() -> Iterator[str]:
    """Yield the address of a registry, host and port, that ends with the block; skip without it."""
    if not REGISTRY.exists():
        pytest.skip("no .tools/cluster/bin/registry: `make test` builds it where Go is")
    pipe = subprocess.PIPE
    with subprocess.Popen([REGISTRY], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()
        server.wait(10)


def helm(*arguments: str, home: Path, which: str = "helm") -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    command = [require(which), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def push(package: Path, address: str, home: Path) -> str:
    """Push a package, with its provenance file; return the digest of its manifest."""
    done = helm("push", str(package), f"oci://{address}/charts", "--plain-http", home=home)
    assert done.returncode == 0, done.stderr
    digest = re.search(r"Digest: (sha256:[0-9a-f]{64})", done.stdout + done.stderr)
    assert digest is not None
    return digest[1]
