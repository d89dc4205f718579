"""A network profile is data: every field of one reaches the gang's pods, and only them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import (
    CHART,
    Document,
    Refused,
    env,
    jobs,
    kind,
    merged,
    objects,
    pod,
    template,
)

PROFILE: Document = {
    "podSecurity": "privileged",
    "resource": {"name": "example.com/nic", "count": 4},
    "env": {"NCCL_NET": "profile", "A": "profile", "B": "profile", "C": "profile"},
    "capabilities": ["NET_ADMIN"],
    "podSecurityContext": {"fsGroup": 5},
    "annotations": {"example.com/nics": "all"},
    "volumes": [{"name": "driver", "hostPath": {"path": "/opt/driver"}}],
    "volumeMounts": [{"name": "driver", "mountPath": "/opt/driver"}],
    "initContainers": [{"name": "wait", "image": "i", "command": ["true"]}],
    "hostNetwork": True,
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
    assert {k: v for k, v in spec.items() if k.startswith(("host", "dns"))} == {
        **{"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
    }
    assert spec["initContainers"] == PROFILE["initContainers"]
    assert spec["volumes"][-1:] == PROFILE["volumes"]
    assert container["volumeMounts"][-1:] == PROFILE["volumeMounts"]
    assert spec["securityContext"]["fsGroup"] == 5
    assert container["securityContext"]["capabilities"]["add"] == ["NET_ADMIN"]
    for side in ("requests", "limits"):
        assert container["resources"][side]["example.com/nic"] == "4"
    annotations = jobs(documents)["node"]["template"]["metadata"]["annotations"]
    assert annotations["example.com/nics"] == "all"
    variables = env(documents)
    assert [variables.get(name) for name in ("NCCL_NET", "A", "B", "C")] == [
        *("profile", "network", "extra", None)
    ]


def test_a_stage_pod_has_no_fabric(chart: Path) -> None:
    documents = objects(template(merged(LAYER), chart=chart))
    for role in ("clone", "download"):
        spec = pod(documents, role)
        [container] = spec["containers"]
        assert not {"initContainers", "hostNetwork", "hostPID", "dnsPolicy"} & set(spec)
        assert "add" not in container["securityContext"]["capabilities"]
        assert set(container["resources"]["limits"]) == {"memory"}
        annotations = jobs(documents)[role]["template"]["metadata"]["annotations"]
        assert set(annotations) == {"checksum/launchers", "checksum/recipe"}


def test_the_test_has_no_fabric(chart: Path) -> None:
    spec = kind(objects(template(merged(LAYER), chart=chart)), "Pod")["spec"]
    [container] = spec["containers"]
    assert not {"initContainers", "hostNetwork", "hostPID", "dnsPolicy"} & set(spec)
    assert "driver" not in [v["name"] for v in (*spec["volumes"], *container["volumeMounts"])]
    assert "add" not in container["securityContext"]["capabilities"]
    assert set(container["resources"]["limits"]) == {"memory"}
    assert not {"NCCL_NET", "A"} & {entry["name"] for entry in container["env"]}


def test_the_profiles_volumes_and_paths_are_taken(chart: Path) -> None:
    mine: Document = {
        "extraVolumes": [{"name": "driver", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "shm", "mountPath": "/opt/driver"}],
    }
    with pytest.raises(Refused) as refused:
        template(merged(LAYER, mine), chart=chart)
    assert "extraVolumes: the name driver is taken" in str(refused.value)
    assert "extraVolumeMounts: /opt/driver is taken" in str(refused.value)
