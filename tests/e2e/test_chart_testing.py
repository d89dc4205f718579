"""`ct install` of chart/ci: install, `helm test`, uninstall."""

import json
import os
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.helm import CHART, ROOT
from tests.chart import ct
from tests.e2e import queues, standin
from tests.e2e.measured import measured
from tests.e2e.release import HELM3, HELM4, clean
from tests.e2e.space import Space
from tests.e2e.until import until
from tests.launchers import model_folder
from tests.launchers.pods import PAIR

# entries of the ConfigMap that the values of chart/ci expect in addition to the trainer
DATA = {
    # also the tokenizer.json, which has a model
    "config.json": json.dumps({**model_folder.CONFIG, "model": {}}),
    "pairs.jsonl": PAIR * 200,
}


def install(space: Space, helm: Path, *words: str) -> ct.Done:
    """Run `ct install` in the namespace, with one of the Helms and the cluster's kubectl."""
    path = os.pathsep.join([str(space.kubectl.binary.parent), os.environ["PATH"]])
    own = {"PATH": path, "KUBECONFIG": str(space.kubectl.kubeconfig)}
    return ct.run(
        ["install", f"--namespace={space.name}", *words],
        checkout=ROOT,
        tools=[helm],
        folder=space.folder / "tools",
        env={**clean(space.folder), **own},
        seconds=300,
    )


def names(space: Space, kind: str) -> list[str]:
    return [it["metadata"]["name"] for it in space.kubectl.items(kind)]


@pytest.fixture
def place(empty: Space) -> Iterator[Space]:
    """A namespace with the requirements of ct.yaml; its volumes are released: claims keep them."""
    config = standin.config()
    model = empty.folder / "model.safetensors"
    model_folder.write_weights(model, model_folder.tensors())
    weights = {model.name: b64encode(model.read_bytes()).decode()}
    empty.kubectl.apply([{**config, "data": {**config["data"], **DATA}, "binaryData": weights}])
    queues.make(empty)
    yield empty
    # a claim is kept while a pod, even a finished one, uses it
    empty.kubectl.delete("pods", "--all")
    for claim in empty.kubectl.items("persistentvolumeclaims"):
        volume = str(claim["spec"]["volumeName"])
        empty.kubectl.delete(f"persistentvolumeclaim/{claim['metadata']['name']}")
        folder = empty.cluster.layout.shared / volume.removeprefix("shared-")
        for path in folder.iterdir():
            shutil.rmtree(path)
        unclaim = '[{"op": "remove", "path": "/spec/claimRef"}]'
        empty.kubectl.run("patch", "persistentvolume", volume, "--type=json", f"--patch={unclaim}")


@pytest.mark.level("restricted")
@pytest.mark.parametrize("helm", [HELM4, HELM3], ids=["helm4", "helm3"])
def test_ct_installs_proves_and_removes_all_values(place: Space, helm: Path) -> None:
    with measured(f"ct install of chart/ci, {helm.parent.name}"):
        done = install(place, helm)
    assert done.code == 0, done.tools
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    assert files
    for file in files:
        assert f'with values file "{file.relative_to(ROOT)}"' in done.output
    assert done.tools.count("Phase:          Succeeded") == len(files), done.tools
    assert names(place, "configmaps") == ["kube-root-ca.crt", "standin"]
    assert names(place, "jobsets") + names(place, "secrets") == []
    until("the pods of helm test go", lambda: names(place, "pods") == [], seconds=30)
    assert len(names(place, "persistentvolumeclaims")) == len(files)


@pytest.mark.parametrize(
    "over, expected",
    [
        ("recipe.model=file:///opt/standin/none", "/opt/standin/none"),
        ("kueue.queue=nobodys,test.deadlineSeconds=5", "queue"),
    ],
    ids=["run-that-fails", "never-admitted"],
)
def test_ct_fails_with(place: Space, over: str, expected: str) -> None:
    done = install(place, HELM4, f"--helm-extra-set-args=--set={over}")
    assert done.code == 1
    assert expected in done.tools
