"""A release reaches the cluster through a registry: built, signed, pushed, verified, installed.

`make release` builds it, and the registry listens on loopback.
"""

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.e2e import standin
from tests.e2e.release import HELM3, HELM4, Refused, Release
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.scripts.dev.release import checkouts, loopback
from tests.scripts.dev.release import keyring as keys

VERSION = "9.8.7"
SIGNED, CHANGED = b"backoffLimit: 0", b"backoffLimit: 9"
"""A line of the chart, and what somebody makes of it after it was signed."""
CONFIG_MAPS = {"launcher": {"from": "chart"}}
HELMS = pytest.mark.parametrize("helm", [HELM4, HELM3], ids=["helm4", "helm3"])


@dataclass(frozen=True, kw_only=True)
class Published:
    address: str
    """The registry's."""
    digest: str
    """Digest of the release's manifest."""
    keyring: Path
    """Public key of its signer."""

    def release(self, space: Space, helm: Path, place: str = "charts") -> tuple[Release, Run]:
        """Describe a run that Helm installs from the registry once it has verified the package.

        It takes the launcher from ConfigMaps: containerd of the test cluster's nodes cannot mount
        images, and its image is in no registry.
        """
        made, run = standin.release(space, "dpo", CONFIG_MAPS, helm=helm)
        source = ("--version", VERSION, "--plain-http", "--verify", "--keyring", str(self.keyring))
        chart = f"oci://{self.address}/{place}/megatron-dpo"
        return replace(made, chart=chart, source=source), run


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Publish a signed release, and in ``changed/`` a package of it that was changed later."""
    folder = tmp_path_factory.mktemp("published")
    home, changed = folder / "gnupg", folder / "changed"
    home.mkdir()
    changed.mkdir()
    with loopback.serving() as address, keys.made(home) as keyring:
        checkout = checkouts.made(folder / "checkout", filled=True)
        done = checkouts.release(checkout, VERSION, "--sign", keys.USER)
        assert done.returncode == 0, done.stdout + done.stderr
        package = checkout / "dist" / f"megatron-dpo-{VERSION}.tgz"
        digest = loopback.push(package, address, folder)
        plain = gzip.decompress(package.read_bytes())
        assert SIGNED in plain
        (changed / package.name).write_bytes(gzip.compress(plain.replace(SIGNED, CHANGED)))
        shutil.copy(f"{package}.prov", changed)
        loopback.push(changed / package.name, address, folder, "changed")
        yield Published(address=address, digest=digest, keyring=keyring)


@HELMS
def test_a_signed_release_is_installed_from_a_registry_and_runs(
    queued: Space, published: Published, helm: Path
) -> None:
    release, run = published.release(queued, helm)
    release.install()
    run.ended()
    assert run.states["train"] == "done"
    assert run.jobset["metadata"]["labels"]["helm.sh/chart"] == f"megatron-dpo-{VERSION}"
    release.test(60)
    release.uninstall()
    assert queued.kubectl.find("jobset", release.name) is None


def test_a_release_is_installed_by_its_digest(queued: Space, published: Published) -> None:
    release, run = published.release(queued, HELM4)
    chart = f"{release.chart}@{published.digest}"
    replace(release, chart=chart, source=("--plain-http",)).install()
    run.ended()


@HELMS
def test_a_package_that_was_changed_after_signing_is_not_installed(
    queued: Space, published: Published, helm: Path
) -> None:
    release, _ = published.release(queued, helm, "changed")
    with pytest.raises(Refused, match="sha256"):
        release.install()
    assert queued.kubectl.items("jobsets") == []


def test_the_api_server_admits_pods_that_mount_the_launchers_image(
    unqueued: Space, published: Published
) -> None:
    release, _ = published.release(unqueued, HELM4)
    words = ("--set", "launcher.from=volume")
    made = [item for item in yaml.safe_load_all(release.manifest(*words)) if item]
    [jobset] = [item for item in made if item["kind"] == "JobSet"]
    template = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]
    metadata = {**template["metadata"], "name": "dpo"}
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
    create = ("create", "--dry-run=server", "--validate=strict", "--output=json", "-f", "-")
    unqueued.kubectl.run(*create, stdin=json.dumps(jobset))
    admitted = json.loads(unqueued.kubectl.run(*create, stdin=json.dumps(pod)))
    volumes = {each["name"]: each for each in admitted["spec"]["volumes"]}
    reference = volumes["package"]["image"]["reference"]
    assert re.fullmatch(r"registry\.dpo\.test/megatron-dpo-launchers@sha256:\w{64}", reference)
