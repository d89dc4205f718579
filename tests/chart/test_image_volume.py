"""The launcher as an image volume: when it is chosen, and what the pods then mount."""

import shutil
from pathlib import Path

import pytest

from launchers import version
from tests.chart import helm
from tests.chart.helm import CHART, STAGED, Document, Refused, merged, objects, pod, template

DIGEST = f"sha256:{'5e' * 32}"
REPOSITORY = "registry.example.com/megatron-dpo-launchers"
VOLUME: Document = {"launcher": {"from": "volume"}}
MANAGED = {"jobset": {"managedBy": "kueue.x-k8s.io/multikueue"}, "kueue": {"queue": "gpu"}}
"""A JobSet that is copied to another cluster, where it needs no ConfigMap."""
FLAGS = ("--api-versions", "jobset.x-k8s.io/v1alpha2", "--kube-version")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a chart that names the launcher's image, as the package of a release does."""
    folder = tmp_path_factory.mktemp("released") / "megatron-dpo"
    shutil.copytree(CHART, folder)
    (folder / "launchers.image").write_text(f"{DIGEST}\n", encoding="ascii")
    return folder


def rendered(chart: Path, values: Document, kubernetes: str = "1.35.0") -> list[Document]:
    return objects(template(merged(STAGED, values), *FLAGS, kubernetes, chart=chart))


def source(documents: list[Document]) -> str:
    volumes = {each["name"]: each for each in pod(documents)["volumes"]}
    [found] = set(volumes.get("package", {"-": {}})) - {"name"}
    return str(found)


@pytest.mark.parametrize(
    ("values", "kubernetes", "found"),
    [
        ({}, "1.35.0", "image"),
        ({}, "1.36.1-gke.100", "image"),
        ({}, "1.34.9", "emptyDir"),
        ({"launcher": {"from": "chart"}}, "1.35.0", "emptyDir"),
        (VOLUME, "1.34.9", "image"),
        ({"launcher": {"from": "image"}}, "1.35.0", "-"),
        (MANAGED, "1.35.0", "image"),
    ],
)
def test_a_release_uses_the_volume_where_kubernetes_mounts_images(
    released: Path, values: Document, kubernetes: str, found: str
) -> None:
    assert source(rendered(released, values, kubernetes)) == found


def test_without_a_cluster_the_version_of_helm_does_not_choose(released: Path) -> None:
    made = objects(template(merged(STAGED), "--kube-version", "1.36.0", chart=released))
    assert source(made) == "emptyDir"


def test_a_run_that_began_with_configmaps_keeps_them(released: Path, tmp_path: Path) -> None:
    began = tmp_path / "megatron-dpo"
    shutil.copytree(released, began)
    upgrade = began / helm.LIBRARY / "templates" / "upgrade"
    live = '{"ConfigMap": {"binaryData": {"a": "Yg=="}}}'
    (upgrade / "_cluster_state.tpl").write_text(
        f'{{{{- define "megatron-dpo.clusterState" -}}}}{live}{{{{- end }}}}'
    )
    # what else differs from the run is no part of this test
    (upgrade / "_upgrade.tpl").write_text('{{- define "megatron-dpo.upgrade" -}}{{- end }}')
    upgraded = template(merged(STAGED), *FLAGS, "1.35.0", "--is-upgrade", chart=began)
    assert source(objects(upgraded)) == "emptyDir"


def test_a_checkout_uses_its_own_code() -> None:
    assert source(rendered(CHART, {})) == "emptyDir"


def test_every_pod_runs_the_sources_of_the_volume(released: Path) -> None:
    documents = rendered(released, {})
    [config] = [each for each in documents if each["kind"] == "ConfigMap"]
    assert "binaryData" not in config
    digest = version.digest(version.sources(helm.ROOT / "launchers"))
    assert config["metadata"]["annotations"]["checksum/launchers"] == digest
    for role, spec in helm.specs(documents).items():
        [container] = spec["containers"]
        volume = {"reference": f"{REPOSITORY}@{DIGEST}", "pullPolicy": "IfNotPresent"}
        assert {"name": "package", "image": volume} in spec["volumes"], role
        mount = {"name": "package", "mountPath": "/opt/launchers", "readOnly": True}
        assert mount in container["volumeMounts"], role
        word = {"node": "run", "test": "verify"}.get(role, role)
        assert container["command"] == ["python3", "-m", "launchers", word]
        assert container["workingDir"] == "/opt"


def test_a_mirror_is_named_by_its_repository(released: Path) -> None:
    mirror = {"launcher": {"repository": "mirror.test:5000/dpo/launchers"}}
    volumes = {each["name"]: each for each in pod(rendered(released, mirror))["volumes"]}
    assert volumes["package"]["image"]["reference"] == f"mirror.test:5000/dpo/launchers@{DIGEST}"


def test_a_chart_without_an_image_refuses_the_volume() -> None:
    with pytest.raises(Refused, match=r"- launcher.from: volume, .* \[chart-launcher\]"):
        rendered(CHART, VOLUME)
