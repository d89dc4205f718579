"""The pod of `helm test`: the gang's image, user and workspace, and nothing more."""

import pytest

from tests.chart.helm import Document, env, kind, render, runs
from tests.chart.helm import pod as gang_pod
from tests.chart.test_crd import FULL

EVERYTHING: Document = {
    "network": {"profile": "ib-shared"},
    "code": {"url": "https://git.example.com/a", "ref": "v1", "existingSecret": "git"},
    "secrets": {"hf": {"existingSecret": "hub"}, "modelscope": {"existingSecret": "ms"}},
    "nodeSelector": {"pool": "a100"},
    "extraEnv": {"PYTHONPATH": "/more"},
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "kueue": {"queue": "team", "topology": {"mode": "required", "key": "rack"}},
    "image": {"pullSecrets": ["registry"]},
}


def variables(container: Document) -> Document:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def test_it_is_a_hook_that_the_next_test_replaces() -> None:
    found = kind(render(), "Pod")
    assert found["metadata"]["name"] == "run-test"
    hook = {k: v for k, v in found["metadata"]["annotations"].items() if k.startswith("helm.sh")}
    assert hook == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    assert found["spec"]["restartPolicy"] == "Never"
    [container] = found["spec"]["containers"]
    assert runs(container["command"]) == "verify"


@pytest.mark.parametrize("layer", [{}, EVERYTHING, FULL])
def test_it_is_the_gangs_image_and_user_and_workspace(layer: Document) -> None:
    documents = render(layer)
    mine, gang = kind(documents, "Pod")["spec"], gang_pod(documents)
    own, theirs = mine["containers"][0], gang["containers"][0]
    for field in ("image", "imagePullPolicy", "workingDir"):
        assert own[field] == theirs[field]
    for field in ("securityContext", "automountServiceAccountToken"):
        assert mine[field] == gang[field]
    assert mine.get("imagePullSecrets") == gang.get("imagePullSecrets")
    [volume] = [v for v in mine["volumes"] if v["name"] == "workspace"]
    assert volume in gang["volumes"]
    [mount] = [m for m in own["volumeMounts"] if m["name"] == "workspace"]
    assert mount in theirs["volumeMounts"]
    names = ("DPO_RUN", "DPO_WORKSPACE", "SKIP_TRAIN", "HOME")
    assert {n: variables(own)[n] for n in names} == {n: env(documents)[n] for n in names}


def test_it_has_no_gpu_no_fabric_no_secret_and_no_place() -> None:
    found = kind(render(EVERYTHING), "Pod")
    [container] = found["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "256Mi"},
    }
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert found["spec"]["automountServiceAccountToken"] is False
    assert not {"nodeSelector", "initContainers", "hostNetwork"} & set(found["spec"])
    volumes = {v["name"] for v in found["spec"]["volumes"]}
    assert volumes == {"launchers", "package", "workspace", "tmp", "release", "more"}
    seen = variables(container)
    assert not {"HF_TOKEN", "MODELSCOPE_API_TOKEN", "DPO_CODE_SECRET", "NCCL_NET"} & set(seen)
    assert not [k for k in found["metadata"]["annotations"] if k.startswith("kueue")]
    assert not [k for k in found["metadata"].get("labels", {}) if k.startswith("kueue")]


def test_it_knows_when_the_release_was_installed() -> None:
    found = kind(render(), "Pod")
    [volume] = [v for v in found["spec"]["volumes"] if v["name"] == "release"]
    assert volume["secret"]["secretName"] == "sh.helm.release.v1.run.v1"
    assert volume["secret"]["optional"] is True
    [container] = found["spec"]["containers"]
    [mount] = [m for m in container["volumeMounts"] if m["name"] == "release"]
    assert variables(container)["DPO_RELEASE_RECORD"] == f"{mount['mountPath']}/release"


def test_the_deadline_and_the_resources_are_the_users() -> None:
    layer: Document = {"test": {"deadlineSeconds": 7, "resources": {"limits": {"cpu": 1}}}}
    [container] = kind(render(layer), "Pod")["spec"]["containers"]
    assert variables(container)["DPO_TEST_DEADLINE"] == "7"
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "256Mi"}
    assert "DPO_TEST_DEADLINE" not in env(render(layer))


def test_a_workspace_that_ends_with_its_pod_has_nothing_to_prove() -> None:
    lost: Document = {"nodes": 1, "workspace": {"existingClaim": None, "emptyDir": {}}}
    assert "Pod" not in [document["kind"] for document in render(lost)]
