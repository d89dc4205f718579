"""Values that users need, and values that resemble refused ones, render as given."""

from pathlib import Path

import pytest

from launchers.yaml_file import read_yaml
from tests.chart import judged
from tests.chart.helm import BASE, Document, env, kind, merged, pod, render

AUDITED: dict[str, Document] = read_yaml(Path(__file__).with_name("accepted.yaml"))
SIDECAR: Document = {
    "name": "proxy",
    "image": "example.com/proxy:v1",
    "restartPolicy": "Always",
    "ports": [{"name": "admin", "containerPort": 9401}],
    "startupProbe": {"httpGet": {"port": "admin", "path": "/healthz"}, "failureThreshold": 30},
    "readinessProbe": {"tcpSocket": {"port": 9401}},
    "livenessProbe": {"exec": {"command": ["true"]}},
    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
    "envFrom": [{"secretRef": {"name": "proxy"}}],
    "resources": {"limits": {"memory": "1Gi"}, "claims": [{"name": "nic"}]},
    "env": [{"name": "URL", "value": "http://$(FROM_THE_SECRET)"}],
}


def test_a_sidecar_has_ports_probes_handlers_variables_and_claims() -> None:
    claim = {"name": "nic", "resourceClaimTemplateName": "nic"}
    rendered = pod(render(BASE, {"extraInitContainers": [SIDECAR], "resourceClaims": [claim]}))
    assert SIDECAR in rendered["initContainers"]


def test_an_init_container_mounts_the_charts_volumes_as_root() -> None:
    root = {"runAsUser": 0, "runAsNonRoot": False, "capabilities": {"add": ["CHOWN"]}}
    mounts = (("local-checkpoints", "/l"), ("code-secret", "/s"))
    container = {
        "name": "fix",
        "image": "busybox:1.36",
        "command": ["sh", "-c", "chown $(id -u) /l; echo $(hostname) $(A)"],
        "env": [{"name": "A", "value": "x"}],
        "securityContext": root,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts],
    }
    needed = {
        "localCheckpoints": {"hostPath": {"path": "/mnt/nvme"}},
        "recipe": {"saving": "background"},
        "code": {"url": "git@git.example.com:a/b", "ref": "v1", "existingSecret": "git"},
        "extraInitContainers": [container],
    }
    assert container in pod(render(BASE, needed))["initContainers"]


MOUNTS = (
    ("/dev/infiniband", None),
    ("/etc/nccl.conf", "nccl.conf"),
    ("/etc/ssl/certs", None),
    ("/etc/ssl/certs/corp.crt", "ca.crt"),
    ("/usr/lib/x86_64-linux-gnu/libnccl-net.so", "libnccl-net.so"),
    ("/usr/local/cuda/compat", None),
    ("/usr/local/nvidia", None),
    ("/usr/share/datasets", None),
    ("/sys/fs/bpf", None),
    ("/workspace/cache/huggingface/hub/models--a--b", None),
)
"""Folders and files (with their subPath) that users mount."""


def test_folders_next_to_those_of_the_system_may_be_mounted() -> None:
    mounts = [
        {"name": "a", "mountPath": path, "readOnly": True} | ({"subPath": file} if file else {})
        for path, file in MOUNTS
    ]
    volume = {"name": "a", "hostPath": {"path": "/sys/fs/bpf"}}
    found = pod(render(BASE, {"extraVolumes": [volume], "extraVolumeMounts": mounts}))
    assert found["containers"][0]["volumeMounts"][-len(MOUNTS) :] == mounts


def test_a_number_of_threads_is_that_of_the_processors() -> None:
    processors = {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    given = {"THREADS": processors, "OMP_NUM_THREADS": "$(THREADS)"}
    limits = {"requests": {"cpu": 8}, "limits": {"cpu": 8}}
    found = env(render(BASE, {"extraEnv": given, "resources": limits}))
    assert found["OMP_NUM_THREADS"] == "$(THREADS)"


def test_labels_of_the_pod_monitor() -> None:
    labels = {"release": "prometheus"}
    given = {"port": 9400, "podMonitor": True, "podMonitorLabels": labels}
    found = kind(render(BASE, {"monitoring": given}), "PodMonitor")["metadata"]["labels"]
    assert labels.items() <= found.items()


def test_a_variable_may_refer_to_those_of_a_secret() -> None:
    given = {"envFrom": [{"secretRef": {"name": "site"}}], "extraEnv": {"URL": "http://$(HOST):1"}}
    variables = pod(render(BASE, given))["containers"][0]["env"]
    assert {"name": "URL", "value": "http://$(HOST):1"} in variables


def test_objects_of_one_name_in_two_namespaces() -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "run-launchers"}}
    other = {**one, "metadata": {"name": "run-launchers", "namespace": "other"}}
    assert other in render(BASE, {"extraObjects": [other]})


TAGS = (
    "main-20250601 nightly-2025.01.02 dev-0abc123 stable-25.01 v1.2.3-main.4 v1-latest-2 headless"
)


@pytest.mark.parametrize("tag", TAGS.split())
def test_a_tag_that_names_one_build_stays(tag: str) -> None:
    image = {"repository": "example.com/a", "tag": tag}
    given = {"image": image, "extraInitContainers": [{"name": "a", "image": f"r:5000/b:{tag}"}]}
    assert pod(render(BASE, given))["containers"][0]["image"] == f"example.com/a:{tag}"


def test_the_default_dns_policy_may_be_written() -> None:
    found = pod(render(BASE, {"podSpec": {"dnsPolicy": "ClusterFirst"}}))
    assert found["dnsPolicy"] == "ClusterFirst"


@pytest.mark.parametrize("name", AUDITED)
def test_a_values_file_of_the_audit_renders(name: str) -> None:
    assert kind(render(AUDITED[name]), "JobSet")
    assert judged.lines(merged(AUDITED[name])) == []
