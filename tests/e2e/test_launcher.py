"""Ways to deliver the launcher's code into the pods."""

import json
import subprocess
import zipfile

import pytest
import yaml

from scripts.helm import CHART, ROOT
from tests.e2e import standin
from tests.e2e.kubectl import Object
from tests.e2e.space import Space

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SITE = "site"
"""Folder of the workspace that replaces the image's site-packages."""


def test_helm_template_and_client_side_apply_start_a_run(queued: Space) -> None:
    release, run = standin.release(queued, "dpo")
    # Skip hooks such as the pod of `helm test`.
    queued.kubectl.run("apply", "-f", "-", stdin=release.manifest("--skip-tests"))
    run.ended()
    assert run.states["train"] == "done"
    config = queued.kubectl.get("configmap", "dpo-launchers")
    kept = json.loads(config["metadata"]["annotations"][LAST_APPLIED])
    assert kept["binaryData"] == config["binaryData"]


@pytest.mark.level("restricted")
def test_the_launcher_is_unpacked_on_a_read_only_root(unqueued: Space) -> None:
    over = {
        "securityContext": {"readOnlyRootFilesystem": True},
        "network": {"profile": "tcp"},
        "kueue": {"queue": "", "topology": {"mode": "none", "key": ""}},
    }
    release, run = standin.release(unqueued, "dpo", over)
    release.install()
    run.ended()
    release.test(60)


def wheel(space: Space) -> str:
    """Install the launcher's wheel for the pods' Python; return its version."""
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(space.folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    [built] = space.folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(space.workspace / SITE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["version"])


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


def test_an_image_with_another_version_of_the_launcher_is_refused(queued: Space) -> None:
    needed = wheel(queued)
    [metadata] = (queued.workspace / SITE).glob("*.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    other = text.replace(f"\nVersion: {needed}\n", "\nVersion: 0.0.1\n")
    assert other != text
    metadata.write_text(other, encoding="utf-8")
    release, run = standin.release(queued, "dpo", of_image())
    release.install()
    jobset = run.ended("Failed")
    assert jobset["status"].get("restarts", 0) == 0
    said = next(json.loads(pod.said) for pod in run.pods() if pod.code == 78)
    assert "0.0.1" in said["cause"] and needed in said["cause"]
