"""A network profile is data: every field of one reaches the gang's pods, and only them."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from scripts.values import fabric
from tests.chart import judged
from tests.chart.helm import CHART, Document, env, jobs, merged, objects, pod, template

PROFILE: Document = {
    "summary": "a test",
    "tried": "run",
    "link": "ib",
    "transport": "NET/IB",
    "expect": {"busbwGBs": 100, "gpus": 8, "source": "a test"},
    "podSecurity": "privileged",
    "resources": {"example.com/nic": 4, "hugepages-2Mi": "64Mi"},
    "covers": ["example.com/nic", "hugepages-2Mi"],
    "attachment": "rail",
    "env": {"NCCL_NET": "profile", "A": "profile", "B": "profile", "C": "profile"},
    "capabilities": ["NET_ADMIN"],
    "podSecurityContext": {"fsGroup": 5},
    "annotations": {"example.com/nics": "all"},
    "volumes": [{"name": "driver", "hostPath": {"path": "/opt/driver"}}],
    "volumeMounts": [{"name": "driver", "mountPath": "/opt/driver"}],
    "initContainers": [{"name": "wait", "image": "i:1", "command": ["true"]}],
}
LAYER: Document = {
    "network": {"profile": "synthetic", "env": {"A": "network", "B": "network"}},
    "extraEnv": {"B": "extra", "C": None},
    "stages": {"placement": "jobs", "convert": {"skip": True}},
}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart with one more network."""
    folder = tmp_path_factory.mktemp("network") / "chart"
    shutil.copytree(CHART, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "networks" / "synthetic.yaml").write_text(yaml.safe_dump(PROFILE))
    return folder


def test_every_field_of_a_profile_reaches_the_gang(chart: Path) -> None:
    documents = objects(template(merged(LAYER), chart=chart))
    spec = pod(documents)
    [container] = spec["containers"]
    assert spec["initContainers"] == PROFILE["initContainers"]
    assert spec["volumes"][-1:] == PROFILE["volumes"]
    assert container["volumeMounts"][-1:] == PROFILE["volumeMounts"]
    assert spec["securityContext"]["fsGroup"] == 5
    assert container["securityContext"]["capabilities"]["add"] == ["NET_ADMIN"]
    for side in ("requests", "limits"):
        assert container["resources"][side]["example.com/nic"] == "4"
        assert container["resources"][side]["hugepages-2Mi"] == "64Mi"
    annotations = jobs(documents)["node"]["template"]["metadata"]["annotations"]
    assert annotations["example.com/nics"] == "all"
    assert annotations["k8s.v1.cni.cncf.io/networks"] == "rail,rail,rail,rail"
    variables = env(documents)
    found = [variables.get(name) for name in ("NCCL_NET", "A", "B", "C")]
    assert found == ["profile", "network", "extra", None]


def test_a_stage_pod_has_no_fabric(chart: Path) -> None:
    documents = objects(template(merged(LAYER), chart=chart))
    for role in ("clone", "download"):
        spec = pod(documents, role)
        [container] = spec["containers"]
        assert not {"initContainers", "hostNetwork", "hostPID", "dnsPolicy"} & set(spec)
        assert not [e for e in container["env"] if e["name"].startswith("DPO_NETWORK_")]
        assert "add" not in container["securityContext"]["capabilities"]
        assert set(container["resources"]["limits"]) == {"memory"}
        annotations = jobs(documents)[role]["template"]["metadata"]["annotations"]
        assert set(annotations) == {"checksum/launchers", "checksum/recipe"}


def test_the_profiles_volumes_and_paths_are_taken(
    chart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric, "CHART", chart)
    mine: Document = {
        "extraVolumes": [{"name": "driver", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "shm", "mountPath": "/opt/driver"}],
    }
    said = "\n".join(judged.lines(merged(LAYER, mine), chart=chart))
    assert "extraVolumes: the name driver is in use" in said
    assert "extraVolumeMounts: /opt/driver is in use" in said


def network(**given: object) -> Document:
    return {"network": {"profile": "synthetic", **given}}


def limits(chart: Path, *layers: Document) -> Document:
    [container] = pod(objects(template(merged(*layers), chart=chart)))["containers"]
    found: Document = container["resources"]["limits"]
    return {k: v for k, v in found.items() if k not in ("memory", "nvidia.com/gpu")}


def test_the_only_device_takes_the_users_name_and_count(chart: Path) -> None:
    huge = {"hugepages-2Mi": "64Mi"}
    assert limits(chart, network(resourceName="a/b")) == {"a/b": "4", **huge}
    assert limits(chart, network(resourceCount=2)) == {"example.com/nic": "2", **huge}
    documents = objects(template(merged(network(resourceCount=2)), chart=chart))
    annotations = jobs(documents)["node"]["template"]["metadata"]["annotations"]
    assert annotations["k8s.v1.cni.cncf.io/networks"] == "rail,rail"
    tcp: Document = {"network": {"profile": "tcp", "resourceName": "a/b", "resourceCount": 3}}
    assert limits(chart, tcp) == {"a/b": "3"}


def test_resources_are_laid_over_the_profiles(chart: Path) -> None:
    given = {"hugepages-2Mi": None, "example.com/nic": 1, "a/b": 2}
    annotation = {"k8s.v1.cni.cncf.io/networks": "mine"}
    layer = network(resources=given, attachment="")
    assert limits(chart, layer) == {"example.com/nic": "1", "a/b": "2"}
    documents = objects(template(merged(network(annotations=annotation)), chart=chart))
    annotations = jobs(documents)["node"]["template"]["metadata"]["annotations"]
    assert annotations.items() >= {**annotation, "example.com/nics": "all"}.items()


def test_a_custom_network_is_what_the_values_say() -> None:
    given: Document = {
        "profile": "custom",
        "resources": {"a/b": 2},
        "env": {"NCCL_NET": "mine"},
        "annotations": {"a/b": "c"},
        "capabilities": ["IPC_LOCK"],
        "hostNetwork": True,
        "libraryPath": ["/a", "/b"],
        "envFile": "/a/env.sh",
        "initContainers": [{"name": "a", "image": "i:1"}],
        "transport": "NET/Mine",
        "floorGBs": 12.5,
    }
    root: Document = {"podSecurityContext": {"runAsNonRoot": False, "runAsUser": 0}}
    documents = objects(template(merged(root, {"network": given})))
    spec = pod(documents)
    [container] = spec["containers"]
    assert spec["hostNetwork"] is True
    assert spec["initContainers"] == given["initContainers"]
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert container["resources"]["limits"]["a/b"] == "2"
    assert "export LD_LIBRARY_PATH=/a:/b$" in container["command"][2]
    assert ". /a/env.sh ||" in container["command"][2]
    found = env(documents)
    names = ("NCCL_NET", "DPO_NETWORK_TRANSPORT", "DPO_NETWORK_FLOOR_GBS")
    assert [found[name] for name in names] == ["mine", "NET/Mine", "12.5"]


@pytest.mark.parametrize(
    "over, transport, expected, floor",
    [
        ({}, "NET/IB", "100", ""),
        ({"gpusPerNode": 2}, "NET/IB", "25", ""),
        ({"gpusPerNode": 16, "recipe": {"backend": "transformers"}}, "NET/IB", "100", ""),
        ({"gpusPerNode": 0, "recipe": {"backend": "transformers"}}, "NET/IB", "", ""),
        ({"nodes": 1}, "", "", ""),
        ({"network": {"floorGBs": 7}}, "NET/IB", "", "7"),
        ({"network": {"floorGBs": 0}}, "NET/IB", "", ""),
        ({"network": {"transport": ""}}, "", "100", ""),
    ],
)
def test_the_launcher_hears_what_to_demand(
    chart: Path, over: Document, transport: str, expected: str, floor: str
) -> None:
    found = env(objects(template(merged(network(), over), chart=chart)))
    wanted = {"TRANSPORT": transport, "GBS": expected, "FLOOR_GBS": floor}
    in_env = {f"DPO_NETWORK_{name}": value for name, value in wanted.items() if value}
    # an empty value would be dropped by the API server and added again by every upgrade
    assert {name: found[name] for name in found if name.startswith("DPO_NETWORK_")} == in_env


def test_a_privileged_fabric_is_one_of_the_gang_only() -> None:
    layer: Document = {"network": {"profile": "oci-roce-vf"}}
    documents = objects(template(merged(LAYER, layer)))
    [node], [clone] = (pod(documents, role)["containers"] for role in ("node", "clone"))
    assert node["securityContext"] == {"privileged": True, "capabilities": {"drop": ["ALL"]}}
    assert "privileged" not in clone["securityContext"]
    tamed = objects(template(merged(layer, {"securityContext": {"privileged": False}})))
    security = pod(tamed)["containers"][0]["securityContext"]
    assert (security["privileged"], security["allowPrivilegeEscalation"]) == (False, False)


def test_the_volumes_of_an_init_container_are_there() -> None:
    container = {"name": "a", "image": "i:1", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}
    layer: Document = {"network": {"initContainers": [container]}}
    [line] = judged.lines(merged(layer))
    assert re.match("network.initContainers: a mounts x, .*network-init-volume", line)
    volume: Document = {"extraVolumes": [{"name": "x", "emptyDir": {}}]}
    assert judged.lines(merged(layer, volume)) == []
