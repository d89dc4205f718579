"""The needs of chart/CLUSTERS.md on a real cluster: admitted each, and run to the end together."""

import re
from collections.abc import Iterator

import pytest
import yaml

from scripts.helm import CHART
from tests.chart import prometheus_operator
from tests.chart.helm import render
from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.release import Release
from tests.e2e.runs import GANG, Run
from tests.e2e.space import Opened, Space
from tests.e2e.test_topology import RACK
from tests.e2e.until import until

ROW = re.compile(r"^\| ([^|]+) \| `([^|`]+)` \|[^|]+\| (ran|admitted) \|$", re.MULTILINE)
NEUTRAL: Object = {"launcher": {"from": "image"}, "kueue": {"queue": "team"}}
"""Values that some rows require and no row changes."""
ANNOTATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
LABEL = "kai.scheduler/queue"
POD_MONITORS = "podmonitors.monitoring.coreos.com"
ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dpo"}
WAITS = "trap 'exit 0' TERM; echo sidecar runs; sleep infinity & wait"
"""Program of a sidecar; without the trap pid 1 would ignore SIGTERM for the whole grace period."""


def container(name: str, program: str, **more: str) -> Object:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    command = ["sh", "-c", program]
    image = f"{standin.IMAGE['repository']}:{standin.IMAGE['tag']}"
    return {"name": name, "image": image, "command": command, "resources": resources, **more}


def together(name: str) -> Object:
    """Return the values of a run with each need that the test cluster can meet.

    ``name``: of the RuntimeClass, which belongs to the whole cluster.
    """
    return {
        "runtimeClassName": name,
        "jobset": {
            "labels": {LABEL: "team"},
            "annotations": {ANNOTATION: 604800},
            "activeDeadlineSeconds": 86400,
            "spec": {"coordinator": {"replicatedJob": "node"}},
        },
        "extraInitContainers": [
            container("logs", WAITS, restartPolicy="Always"),
            container("early", "echo early is done"),
        ],
        "stages": {
            "placement": "jobs",
            "convert": {"skip": True},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "image": {key: standin.IMAGE[key] for key in ("repository", "tag")},
        },
        "dnsConfig": {"searches": ["corp.example.com"]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["hub.example.com"]}],
        "envFrom": [{"secretRef": {"name": "tracker"}}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 443}]}]},
        "serviceAccount": {"create": True, "annotations": ROLE},
        "tmp": {"sizeLimit": "50Mi"},
        "podSpec": {
            "setHostnameAsFQDN": False,
            "containers": [{"name": "launcher", "stdin": True}],
        },
        "extraObjects": [LIMITS],
        "monitoring": {"events": True, "port": 9400},
        "podAnnotations": CALM,
    }


CALM: Object = {
    "karpenter.sh/do-not-disrupt": True,
    "cluster-autoscaler.kubernetes.io/safe-to-evict": False,
}
LIMITS: Object = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits"},
    "spec": {"limits": []},
}
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "tracker"},
    "stringData": {"TRACKER_TEAM": "research"},
}


def runtime_class(name: str) -> Object:
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    return {**kind, "metadata": {"name": name}, "handler": "runc"}


def rows() -> list[tuple[str, Object, str]]:
    """Return need, values and what is shown here, from the table of chart/CLUSTERS.md."""
    found = ROW.findall((CHART / "CLUSTERS.md").read_text(encoding="utf-8"))
    return [(need, yaml.safe_load(values), shown) for need, values, shown in found]


def paths(values: Object, *, depth: int = 2) -> set[tuple[str, ...]]:
    """Return the keys of values down to a depth.

    >>> sorted(paths({"a": {"b": {"c": 1}}, "d": []}))
    [('a', 'b'), ('d',)]
    """
    found: set[tuple[str, ...]] = set()
    for key, value in values.items():
        below = paths(value, depth=depth - 1) if isinstance(value, dict) and depth > 1 else {()}
        found |= {(key, *each) for each in below}
    return found


@pytest.fixture(scope="module")
def admitting(opened: Opened) -> Iterator[Space]:
    """A namespace with the objects that the rows name: Kubernetes looks them up at admission."""
    with opened("needs") as made:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "dpo"}}
        made.kubectl.apply([runtime_class("nvidia"), account])
        made.queues.append("runtimeclass/nvidia")
        _serve_pod_monitors(made)
        yield made


def _serve_pod_monitors(space: Space) -> None:
    """Install the CRD of PodMonitors from a release of Prometheus's operator, if Go has it."""
    found = prometheus_operator.pod_monitors()
    if found is None:
        return
    space.kubectl.apply([found])
    space.queues.append(f"crd/{POD_MONITORS}")
    ready = ("--for=condition=Established", "--timeout=60s")
    space.kubectl.run("wait", f"crd/{POD_MONITORS}", *ready)


def submitted(number: int, values: Object) -> list[Object]:
    """Return the objects of a run, and the pods that its JobSet would create."""
    rendered = render(NEUTRAL, values, name="dpo")
    [jobset] = [item for item in rendered if item["kind"] == "JobSet"]
    pods = []
    for job in jobset["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        metadata = {**template["metadata"], "name": f"row-{number}-{job['name']}"}
        pods.append({"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata})
    # Kubernetes looks the account up, and a dry run has created none.
    return [item for item in rendered if item["kind"] != "ServiceAccount"] + pods


def test_each_need_of_the_page_is_admitted(admitting: Space) -> None:
    absent = ("absent", {"runtimeClassName": "absent"}, "refused")
    objects: list[Object] = []
    for number, (_, values, _) in enumerate([*rows(), absent]):
        objects += [each for each in submitted(number, values) if each not in objects]
    if admitting.kubectl.find("crd", POD_MONITORS) is None:  # Go cannot fetch it
        objects = [each for each in objects if each["kind"] != "PodMonitor"]
    done = admitting.kubectl.dry_run(objects, "--validate=strict")
    [line] = done.stderr.splitlines()
    assert f'pods "row-{len(rows())}-node"' in line and "absent" in line
    assert len(done.stdout.splitlines()) == len(objects) - 1


def test_what_the_page_says_ran_is_what_runs_together() -> None:
    run = paths(together("any"))
    shown = {need: paths(values) <= run for need, values, _ in rows()}
    assert shown == {need: word == "ran" for need, _, word in rows()}
    assert list(shown.values()).count(True) > 10


def test_a_run_with_every_need_that_this_cluster_can_meet_ends(queued: Space) -> None:
    queued.kubectl.apply([runtime_class(queued.name), SECRET])
    queued.queues.append(f"runtimeclass/{queued.name}")
    release, run = standin.release(queued, "dpo", together(queued.name), hold=True)
    release.install()
    admitted = run.condition("Admitted", seconds=120)
    assert admitted["reason"] == "Admitted"
    run.running(2, seconds=180)
    run.training()
    _objects(run)
    _pods(run)
    _inside(run)
    standin.order(run, "succeed")
    run.ended(seconds=180)
    assert run.restarts == (0, 0)
    _events(run)
    _removed(release)


def _objects(run: Run) -> None:
    """JobSet, Workload and the other objects carry what was given."""
    kubectl, jobset = run.space.kubectl, run.jobset
    assert jobset["metadata"]["labels"][LABEL] == "team"
    assert jobset["spec"]["coordinator"]["replicatedJob"] == "node"
    workload = run.workload
    assert workload is not None
    assert workload["metadata"]["annotations"][ANNOTATION] == "604800"
    for job in kubectl.items("jobs"):
        assert job["spec"]["activeDeadlineSeconds"] == 86400
    account = kubectl.get("serviceaccount", run.name)
    assert ROLE.items() <= account["metadata"]["annotations"].items()
    assert kubectl.get("networkpolicy", run.name)["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert kubectl.find("limitrange", "limits") is not None


def _pods(run: Run) -> None:
    """The pods run with the RuntimeClass, the account, the sidecar and the merged fields."""
    chosen = f"jobset.sigs.k8s.io/jobset-name={run.name},{GANG}"
    for pod in run.space.kubectl.items("pods", selector=chosen):
        spec, status = pod["spec"], pod["status"]
        calm = {name: str(value).lower() for name, value in CALM.items()}
        assert calm.items() <= pod["metadata"]["annotations"].items()
        assert spec["runtimeClassName"] == run.space.name
        assert spec["serviceAccountName"] == run.name
        assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
        assert spec["containers"][0]["stdin"] is True
        [tmp] = [volume for volume in spec["volumes"] if volume["name"] == "tmp"]
        assert tmp["emptyDir"]["sizeLimit"] == "50Mi"
        begun = {each["name"]: each for each in status["initContainerStatuses"]}
        assert begun["logs"]["state"].keys() == {"running"}
        assert begun["early"]["state"]["terminated"]["exitCode"] == 0


def _inside(run: Run) -> None:
    """The launcher's container sees the DNS domain, the alias and the Secret's variable."""
    script = "cat /etc/resolv.conf /etc/hosts; tr '\\0' '\\n' < /proc/1/environ"
    for pod in run.pods():
        words = ("exec", pod.name, "--container=launcher", "--", "sh", "-c", script)
        seen = run.space.kubectl.run(*words)
        assert "corp.example.com" in seen
        assert "10.0.0.1\thub.example.com" in seen
        assert "TRACKER_TEAM=research" in seen


def _events(run: Run) -> None:
    """The launcher wrote events on the JobSet with the rights of its Role."""

    def written() -> bool:
        events = run.space.kubectl.items("events")
        return any(
            each["involvedObject"]["kind"] == "JobSet"
            and each.get("source", {}).get("component") == "megatron-dpo"
            for each in events
        )

    until("the launcher's events are on the JobSet", written, seconds=30)


def _removed(release: Release) -> None:
    """Uninstalling removes the other objects, too."""
    release.uninstall()
    kubectl = release.space.kubectl
    for kind, name in (("serviceaccount", release.name), ("limitrange", "limits")):
        assert kubectl.find(kind, name) is None
