"""A release is signed by digest, its SBOM attested, and a changed package refused.

As release.yaml does, but with a key instead of an identity and without the transparency log, which
need a network. `make release-check` runs it: cosign's build takes minutes.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.dev.release import package, sbom
from scripts.helm import ROOT
from tests.chart.helm import call
from tests.scripts.dev.release import loopback

COSIGN = ROOT / ".tools" / "cluster" / "bin" / "cosign"
VALUES = ROOT / "values" / "a100-2node.yaml"
HTTP = "--allow-http-registry"

pytestmark = pytest.mark.skipif(
    not COSIGN.exists(), reason="no .tools/cluster/bin/cosign: `make release-check` builds it"
)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A package in a registry, signed and with its SBOM attested."""

    address: str
    home: Path
    package: Path
    bill: dict[str, Any]
    digest: str

    @property
    def name(self) -> str:
        return f"{self.address}/charts/megatron-dpo"


def cosign(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COSIGN_PASSWORD": ""}
    command = [str(COSIGN), *arguments]
    return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True)


def verified(signed: Signed, digest: str, *attestation: str) -> subprocess.CompletedProcess[str]:
    command = ["verify-attestation", "--type", *attestation] if attestation else ["verify"]
    key = ("--key", "cosign.pub", "--insecure-ignore-tlog", HTTP)
    return cosign(*command, *key, f"{signed.name}@{digest}", home=signed.home)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    home = tmp_path_factory.mktemp("cosign")
    made = package.build(home / "dist")
    bill = sbom.document(made.read_bytes(), "2026-01-01")
    (home / "bill.json").write_text(json.dumps(bill), encoding="utf-8")
    with loopback.serving() as address:
        digest = loopback.push(made, address, home)
        found = Signed(address=address, home=home, package=made, bill=bill, digest=digest)
        common = ("--key", "cosign.key", "--signing-config", "none.json", "--yes", HTTP)
        target = f"{found.name}@{digest}"
        for command in (
            ("generate-key-pair",),
            ("signing-config", "create", "--out", "none.json"),  # without any service
            ("sign", *common, target),
            ("attest", *common, "--type", "spdxjson", "--predicate", "bill.json", target),
        ):
            done = cosign(*command, home=home)
            assert done.returncode == 0, done.stderr
        yield found


def test_the_signature_is_of_the_packages_digest(signed: Signed) -> None:
    done = verified(signed, signed.digest)
    assert done.returncode == 0, done.stderr
    claims = [claim["critical"] for claim in json.loads(done.stdout)]
    assert {claim["image"]["docker-manifest-digest"] for claim in claims} == {signed.digest}
    assert "https://sigstore.dev/cosign/sign/v1" in {claim["type"] for claim in claims}


def test_another_key_has_not_signed_it(signed: Signed, tmp_path: Path) -> None:
    assert cosign("generate-key-pair", home=tmp_path).returncode == 0
    (tmp_path / "cosign.pub").replace(signed.home / "other.pub")
    key = ("--key", "other.pub", "--insecure-ignore-tlog", HTTP)
    done = cosign("verify", *key, f"{signed.name}@{signed.digest}", home=signed.home)
    assert done.returncode != 0


def test_a_changed_package_is_refused_though_its_version_is_the_same(signed: Signed) -> None:
    changed = signed.home / "changed" / signed.package.name
    changed.parent.mkdir()
    changed.write_bytes(signed.package.read_bytes()[:-1] + b"\x01")
    digest = loopback.push(changed, signed.address, signed.home)
    assert digest != signed.digest
    done = verified(signed, digest)
    assert done.returncode != 0 and "no signatures found" in done.stderr
    assert verified(signed, digest, "spdxjson").returncode != 0
    assert verified(signed, signed.digest).returncode == 0


def test_the_attested_sbom_is_read_back(signed: Signed) -> None:
    done = verified(signed, signed.digest, "spdxjson")
    assert done.returncode == 0, done.stderr
    statement = json.loads(base64.b64decode(json.loads(done.stdout)["payload"]))
    assert statement["predicate"] == signed.bill
    assert statement["predicateType"] == "https://spdx.dev/Document"
    named = {f"sha256:{each['digest']['sha256']}" for each in statement["subject"]}
    assert named == {signed.digest}


def test_what_was_signed_is_what_helm_installs(signed: Signed) -> None:
    if call("version", "--short").stdout.startswith("v3"):
        pytest.skip("Helm 3 asks a cluster for its version in a dry run")
    flags = ("--values", str(VALUES), "--dry-run=client", "--output", "json")
    target = f"oci://{signed.name}@{signed.digest}"
    done = loopback.helm("install", "run", target, "--plain-http", *flags, home=signed.home)
    assert done.returncode == 0, done.stderr
    local = call("install", "run", str(ROOT / "chart"), *flags)
    # Helm prints the digest of what it pulled above the release.
    printed = [each.stdout[each.stdout.index("{") :] for each in (done, local)]
    found = [json.loads(each)["manifest"] for each in printed]
    assert list(yaml.safe_load_all(found[0])) == list(yaml.safe_load_all(found[1]))
    assert "kind: JobSet" in found[0]
