"""Ways to deliver the launcher's code into the pods."""

import json
import subprocess
import zipfile

import pytest

from scripts.helm import ROOT
from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.space import Space

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SITE = "site"
"""Folder of the workspace that replaces the image's site-packages."""


@pytest.mark.level("restricted")
def test_helm_template_and_client_side_apply_start_a_run_on_a_read_only_root(
    unqueued: Space,
) -> None:
    over = {
        "securityContext": {"readOnlyRootFilesystem": True},
        "network": {"profile": "tcp"},
        "kueue": {"queue": "", "topology": {"mode": "none", "key": ""}},
    }
    release, run = standin.release(unqueued, "dpo", over)
    # Skip hooks such as the pod of `helm test`.
    unqueued.kubectl.run("apply", "-f", "-", stdin=release.manifest("--skip-tests"))
    run.ended()
    assert run.states["train"] == "done"
    config = unqueued.kubectl.get("configmap", "dpo-launchers")
    kept = json.loads(config["metadata"]["annotations"][LAST_APPLIED])
    assert kept["binaryData"] == config["binaryData"]


def wheel(space: Space) -> None:
    """Install the launcher's wheel for the pods' Python."""
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(space.folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    [built] = space.folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(space.workspace / SITE)


def of_image() -> Object:
    """Return the values of a run whose image contains the launcher."""
    path = f"{standin.FOLDER}:/workspace/{SITE}"
    return {"launcher": {"from": "image"}, "extraEnv": {"PYTHONPATH": path}}


def test_an_image_that_brings_the_launcher_runs_its_own(queued: Space) -> None:
    wheel(queued)
    release, run = standin.release(queued, "dpo", of_image())
    release.install()
    run.ended()
    release.test(60)
    assert "binaryData" not in queued.kubectl.get("configmap", "dpo-launchers")
