"""Rendered objects of given values."""

import io
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from launchers import version
from scripts.archive import stored
from tests.chart import helm
from tests.chart.fabrics import selected
from tests.chart.helm import BASE, CHART, ROOT, STAGED, Document, env, jobs, kind, pod, render

CPU: Document = {"gpusPerNode": 0, "recipe": {"backend": "transformers"}}


def pod_template(documents: list[Document]) -> Document:
    found: Document = jobs(documents)["node"]["template"]
    return found


def resources(documents: list[Document], role: str = "node") -> Document:
    found: Document = pod(documents, role)["containers"][0]["resources"]
    return found


def test_the_config_maps_hold_the_launchers_code(frozen: Path) -> None:
    documents = helm.objects(helm.template(BASE, chart=frozen))
    held: dict[str, bytes] = {}
    for packed in helm.launcher(documents).values():
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            opened = {name: archive.extractfile(name) for name in archive.getnames()}
            held |= {name: file.read() for name, file in opened.items() if file is not None}
    package = frozen.parent / "launchers"
    files = version.sources(package)
    data = {name for name in files if not name.endswith(".py")}
    upstream = {f"upstream/{name}" for name in ("digests.json", "patches.yaml", "templates.json")}
    assert data == {"flags/renames.yaml", *upstream}
    assert held == {f"launchers/{name}": stored(name, source) for name, source in files.items()}
    config = kind(documents, "ConfigMap")
    assert config["immutable"] is True
    digest = version.digest(version.sources(package))
    assert config["metadata"]["annotations"]["checksum/launchers"] == digest
    for role in (pod_template(documents), kind(documents, "Pod")):
        assert role["metadata"]["annotations"]["checksum/launchers"] == digest


def test_an_image_that_brings_the_launcher_gets_no_code_but_the_version_that_it_must_have() -> None:
    documents = render(STAGED, {"launcher": {"from": "image"}})
    config = kind(documents, "ConfigMap")
    assert set(config["data"]) == {"recipe.yaml"}
    assert "binaryData" not in config and "annotations" not in config["metadata"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    for role, spec in helm.specs(documents).items():
        [container] = spec["containers"]
        word = {"node": "run", "test": "verify"}.get(role, role)
        assert container["command"] == ["python3", "-m", "launchers", word]
        given = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert given["DPO_LAUNCHER_VERSION"] == chart["version"]
        assert "DPO_LAUNCHER_DIGEST" not in given
        assert "package" not in {v["name"] for v in spec["volumes"]}
        recipe = f"{container['volumeMounts'][0]['mountPath']}/recipe.yaml"
        assert given["DPO_RECIPE"] == recipe
    assert "checksum/launchers" not in pod_template(documents)["metadata"]["annotations"]
    fabric = render({"launcher": {"from": "image"}}, selected("gke-tcpxo"))
    assert pod(fabric)["containers"][0]["command"][-1].endswith("\nexec python3 -m launchers run\n")


def test_python_and_the_chart_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["version"] == project["version"]
    assert project["name"] == version.DISTRIBUTION


@pytest.mark.parametrize("name", ["null", "true", "no"])
def test_a_name_that_yaml_reads_as_something_else_stays_the_name(name: str) -> None:
    assert kind(render(name=name), "JobSet")["metadata"]["name"] == name


def test_the_users_security_context_wins_over_the_network() -> None:
    layer: Document = {"network": {"profile": "ib-shared"}, "podSecurityContext": {"runAsUser": 7}}
    assert pod(render(layer))["securityContext"]["runAsUser"] == 7


def test_every_setting_is_known_to_the_launcher() -> None:
    from launchers.config.settings import from_env

    code = {"url": "https://git.example.com/a", "ref": "v1", "existingSecret": "git"}
    documents = render(STAGED, {"code": code, "test": {"deadlineSeconds": 7}})
    [container] = kind(documents, "Pod")["spec"]["containers"]
    test = {e["name"]: e.get("value") for e in container["env"]}
    for given in (*(env(documents, role) for role in ("node", "clone", "download")), test):
        texts = {k: v for k, v in given.items() if isinstance(v, str)}
        downward = {"DPO_JOB_INDEX": "0", "DPO_RESTART_ATTEMPT": "0", "JOB_COMPLETION_INDEX": "0"}
        settings = from_env({**texts, **downward, "DPO_POD_NAME": "p", "DPO_NODE_NAME": "n"})
        assert settings.launch.run == "run"
        assert settings.stages.skips == {"convert"}


def test_the_users_resources_win_and_a_null_removes_one() -> None:
    layer: Document = {"resources": {"requests": {"cpu": 3}, "limits": {"memory": None}}}
    found = resources(render(layer))
    assert found["requests"] == {"cpu": "3", "memory": "475136Mi", "nvidia.com/gpu": "8"}
    assert "memory" not in found["limits"]


@pytest.mark.parametrize("side", ["requests", "limits"])
def test_memory_and_devices_given_on_one_side_hold_for_both(side: str) -> None:
    device: Document = {"resources": {side: {"memory": "200Gi", "rdma/x": 2}}}
    found = resources(render(device))
    for both in found.values():
        assert (both["memory"], both["rdma/x"]) == ("200Gi", "2")
    gone: Document = {"resources": {side: {"rdma/hca_shared_devices_a": None}}}
    found = resources(render({"network": {"profile": "ib-shared"}}, gone))
    assert not [both for both in found.values() if "rdma/hca_shared_devices_a" in both]


@pytest.mark.parametrize(
    "mode, value", [("required", "rack"), ("preferred", "rack"), ("unconstrained", "true")]
)
def test_topology_is_on_the_pods_of_the_gang_only(mode: str, value: str) -> None:
    key = {} if mode == "unconstrained" else {"key": "rack"}
    queue = {"kueue": {"queue": "team", "topology": {"mode": mode, **key}}}
    found = jobs(render(STAGED, queue))
    name = f"kueue.x-k8s.io/podset-{mode}-topology"
    assert found["node"]["template"]["metadata"]["annotations"][name] == value
    assert name not in found["clone"]["template"]["metadata"]["annotations"]


def test_pod_labels_do_not_change_with_the_chart() -> None:
    labels = jobs(render())["node"]["template"]["metadata"]["labels"]
    assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(labels)


@pytest.mark.parametrize(
    "workspace",
    [{"nfs": {"server": "h", "path": "/e"}}, {"hostPath": {"path": "/mnt"}}, {"emptyDir": {}}],
)
def test_each_kind_of_workspace_becomes_its_volume(workspace: Document) -> None:
    documents = render({"nodes": 1, "workspace": {"existingClaim": None, **workspace}})
    [volume] = [v for v in pod(documents)["volumes"] if v["name"] == "workspace"]
    [name] = workspace
    assert volume[name].items() >= workspace[name].items()


@pytest.mark.parametrize("asked", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}])
def test_a_mighty_container_has_no_word_about_escalation(asked: Document) -> None:
    root = {"podSecurityContext": {"runAsNonRoot": False, "runAsUser": 0}}
    security = pod(render(root, {"securityContext": asked}))["containers"][0]["securityContext"]
    assert "allowPrivilegeEscalation" not in security
    assert security.items() >= {**asked, "capabilities": security["capabilities"]}.items()


@pytest.mark.parametrize("seconds, expected", [(None, None), (0, 0), (60, 60)])
def test_the_finished_jobset_is_deleted_when_it_is_said(
    seconds: int | None, expected: int | None
) -> None:
    spec = kind(render({"ttlSecondsAfterFinished": seconds}), "JobSet")["spec"]
    assert spec.get("ttlSecondsAfterFinished") == expected


def test_transformers_in_stage_jobs_needs_no_word_about_conversion() -> None:
    layer: Document = {"stages": {"placement": "jobs"}, "recipe": {"backend": "transformers"}}
    assert set(jobs(render(layer))) == {"clone", "download", "node"}


@pytest.mark.parametrize("disk", [{"emptyDir": {"sizeLimit": "1Gi"}}, {"hostPath": {"path": "/d"}}])
def test_the_gang_has_a_disk_for_checkpoints_and_no_other_pod(disk: Document) -> None:
    documents = render(STAGED, {"localCheckpoints": disk})
    [volume] = [v for v in pod(documents)["volumes"] if v["name"] == "local-checkpoints"]
    path = {"hostPath": {"path": "/d", "type": "Directory"}} if "hostPath" in disk else disk
    assert volume == {"name": "local-checkpoints", **path}
    given = env(documents)
    assert given.get("DPO_LOCAL_BYTES") == (str(2**30) if "emptyDir" in disk else None)
    mounts = {m["name"]: m["mountPath"] for m in pod(documents)["containers"][0]["volumeMounts"]}
    # runs of one name in two namespaces may share the folder of the host
    assert f"{mounts['local-checkpoints']}/default" == given["DPO_LOCAL_CHECKPOINTS"]
    for others in (pod(documents, "clone"), kind(documents, "Pod")["spec"]):
        assert "local-checkpoints" not in yaml.safe_dump(others)


@pytest.mark.parametrize("nothing", [None, {}, {"emptyDir": None}, {"hostPath": None}])
def test_a_disk_for_checkpoints_is_an_option(nothing: Document | None) -> None:
    assert render({"localCheckpoints": nothing}) == render()
