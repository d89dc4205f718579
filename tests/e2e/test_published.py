"""A release reaches the cluster through a registry: built, signed, pushed, verified, installed.

`make release` builds it, and the registry listens on loopback.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.e2e import standin
from tests.e2e.release import Release
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.scripts.dev.release import checkouts, loopback
from tests.scripts.dev.release import keyring as keys

VERSION = "9.8.7"
CONFIG_MAPS = {"launcher": {"from": "chart"}}


@dataclass(frozen=True, kw_only=True)
class Published:
    address: str
    """The registry's."""
    keyring: Path
    """Public key of its signer."""

    def release(self, space: Space) -> tuple[Release, Run]:
        """Describe a run that Helm installs from the registry once it has verified the package.

        It takes the launcher from ConfigMaps: containerd of the test cluster's nodes cannot mount
        images, and its image is in no registry.
        """
        made, run = standin.release(space, "dpo", CONFIG_MAPS)
        source = ("--version", VERSION, "--plain-http", "--verify", "--keyring", str(self.keyring))
        chart = f"oci://{self.address}/charts/megatron-dpo"
        return replace(made, chart=chart, source=source), run


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Publish a signed release."""
    folder = tmp_path_factory.mktemp("published")
    home = folder / "gnupg"
    home.mkdir()
    with loopback.serving() as address, keys.made(home) as keyring:
        checkout = checkouts.made(folder / "checkout", filled=True)
        done = checkouts.release(checkout, VERSION, "--sign", keys.USER)
        assert done.returncode == 0, done.stdout + done.stderr
        package = checkout / "dist" / f"megatron-dpo-{VERSION}.tgz"
        loopback.push(package, address, folder)
        yield Published(address=address, keyring=keyring)


def test_a_signed_release_is_installed_from_a_registry_and_runs(
    queued: Space, published: Published
) -> None:
    release, run = published.release(queued)
    release.install()
    run.ended()
    assert run.states["train"] == "done"
    assert run.jobset["metadata"]["labels"]["helm.sh/chart"] == f"megatron-dpo-{VERSION}"


def test_the_api_server_admits_pods_that_mount_the_launchers_image(
    unqueued: Space, published: Published
) -> None:
    release, _ = published.release(unqueued)
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
