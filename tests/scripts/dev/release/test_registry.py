"""A release is pushed to a registry, its provenance verified, and installed from there."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.dev.release import package, provenance
from scripts.helm import ROOT
from scripts.problem import Problem
from tests.chart.helm import KUBERNETES
from tests.scripts.dev.release import keyring as keys
from tests.scripts.dev.release import loopback
from tests.scripts.dev.release.keyring import USER
from tests.scripts.dev.release.loopback import helm

VALUES = ROOT / "values" / "a100-2node.yaml"


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a key in a GnuPG home of its own; return its public keyring, as Helm reads it."""
    with keys.made(tmp_path_factory.mktemp("gnupg")) as public:
        yield public


@pytest.fixture(scope="module")
def signed(keyring: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = package.build(tmp_path_factory.mktemp("dist"))
    provenance.sign(made, USER)
    return made


def test_a_release_goes_through_a_registry(signed: Path, keyring: Path, tmp_path: Path) -> None:
    with loopback.serving() as registry:
        digest = loopback.push(signed, registry, tmp_path)
        version = signed.stem.removeprefix("megatron-dpo-")
        target = f"oci://{registry}/charts/megatron-dpo"
        verify = ("--verify", "--keyring", str(keyring), "--destination", str(tmp_path))
        pulled = helm("pull", target, "--version", version, "--plain-http", *verify, home=tmp_path)
        assert pulled.returncode == 0, pulled.stderr
        assert (tmp_path / signed.name).read_bytes() == signed.read_bytes()
        # By digest, as the README says: what was signed is what is installed.
        flags = ("--values", str(VALUES), "--kube-version", KUBERNETES)
        remote = helm(
            "template", "run", f"{target}@{digest}", "--plain-http", *flags, home=tmp_path
        )
    local = helm("template", "run", str(ROOT / "chart"), *flags, home=tmp_path)
    assert remote.returncode == 0, remote.stderr
    assert list(yaml.safe_load_all(remote.stdout)) == list(yaml.safe_load_all(local.stdout))


@pytest.mark.parametrize("which", ["helm", "helm3"])
def test_both_helms_verify_the_provenance(
    signed: Path, keyring: Path, tmp_path: Path, which: str
) -> None:
    done = helm("verify", str(signed), "--keyring", str(keyring), home=tmp_path, which=which)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(signed.read_bytes()).hexdigest() in done.stdout + done.stderr


def test_another_package_is_not_what_was_signed(
    signed: Path, keyring: Path, tmp_path: Path
) -> None:
    changed = tmp_path / signed.name
    changed.write_bytes(signed.read_bytes()[:-1] + b"\x01")
    shutil.copy(f"{signed}.prov", f"{changed}.prov")
    done = helm("verify", str(changed), "--keyring", str(keyring), home=tmp_path)
    assert done.returncode != 0 and "sha256" in done.stderr


def test_a_key_that_is_not_there_is_refused(signed: Path, tmp_path: Path) -> None:
    copied = tmp_path / signed.name
    shutil.copy(signed, copied)
    with pytest.raises(Problem, match="SIGN_KEY"):
        provenance.sign(copied, "nobody@dpo.test")
