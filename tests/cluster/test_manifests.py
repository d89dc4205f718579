"""Released objects are changed where managers outside the cluster need it, and nowhere else."""

import copy
from typing import Any

import pytest

from scripts.problem import Problem
from tests.e2e.cluster import storage, versions
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import manifests

URL, AUTHORITY = "https://10.201.0.1:9444", "Y2E="


def hooks(kind: str) -> dict[str, Any]:
    service = {"name": "webhook-service", "namespace": "x-system", "path": "/mutate"}
    hook = {"name": "m.x", "failurePolicy": "Fail", "clientConfig": {"service": service}}
    return {"kind": kind, "metadata": {"name": "hooks"}, "webhooks": [hook]}


def definition(*versions: str) -> dict[str, Any]:
    client = {"service": {"name": "webhook-service", "namespace": "x-system", "path": "/convert"}}
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": name} for name in versions],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client}},
        },
    }


RELEASE: list[dict[str, Any]] = [
    {"kind": "Namespace", "metadata": {"name": "x-system"}},
    {"kind": "ClusterRole", "metadata": {"name": "manager"}, "rules": [{"verbs": ["get"]}]},
    {"kind": "Deployment", "metadata": {"name": "manager"}},
    {"kind": "Service", "metadata": {"name": "webhook-service"}},
    {"kind": "Secret", "metadata": {"name": "webhook-cert"}},
    {
        "kind": "ConfigMap",
        "metadata": {"name": "x-manager-config"},
        "data": {"controller_manager_config.yaml": "kind: Configuration\nwebhook: {port: 1}\n"},
    },
    definition("v1", "v2"),
    hooks("MutatingWebhookConfiguration"),
    hooks("ValidatingWebhookConfiguration"),
]


def test_webhooks_and_conversions_are_called_by_url_and_keep_path_and_policy() -> None:
    _, _, crd, mutating, validating = manifests.rewrite(RELEASE, URL, AUTHORITY)
    for item in (mutating, validating):
        assert item["webhooks"] == [
            {
                "name": "m.x",
                "failurePolicy": "Fail",
                "clientConfig": {"url": f"{URL}/mutate", "caBundle": AUTHORITY},
            }
        ]
    client = crd["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client == {"url": f"{URL}/convert", "caBundle": AUTHORITY}


def test_the_release_itself_is_not_touched() -> None:
    before = copy.deepcopy(RELEASE)
    manifests.rewrite(RELEASE, URL, AUTHORITY)
    assert before == RELEASE


def test_the_shipped_configuration_is_the_base() -> None:
    assert manifests.shipped_config(RELEASE) == {"kind": "Configuration", "webhook": {"port": 1}}
    with pytest.raises(Problem, match="layout has changed"):
        manifests.shipped_config([])


def test_versions_are_read_from_the_pinned_modules() -> None:
    assert versions.pinned("jobset").startswith("v0.")
    with pytest.raises(Problem, match="no version of sigs.k8s.io/kueue"):
        versions.required("require sigs.k8s.io/kueue-viz v1.0.0", "sigs.k8s.io/kueue")


def test_volumes_are_folders_that_all_users_may_write_and_outlive_their_claim(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    layout = Layout(home=tmp_path_factory.mktemp("cluster"))
    storage.make_folders(layout)
    storage_class, *volumes = storage.objects(layout)
    assert storage_class["metadata"]["name"] == "shared"
    assert [item["metadata"]["name"] for item in volumes][:2] == ["shared-00", "shared-01"]
    assert len(volumes) == storage.COUNT
    for item in volumes:
        spec = item["spec"]
        assert spec["persistentVolumeReclaimPolicy"] == "Retain"
        folder = layout.shared / spec["hostPath"]["path"].rpartition("/")[2]
        assert folder.stat().st_mode & 0o7777 == 0o2777
