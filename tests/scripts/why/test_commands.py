"""Commands of remedies that are made from the cluster's objects: what exactly they change."""

import json
import shlex
from typing import Any

import pytest

from scripts.doctor.api import Answer
from scripts.manifest import KUEUE
from scripts.observe.view import View
from scripts.why.reasons import explain
from tests.scripts.observe.planted import GPU, Object, listed, pending, suspended, template_of
from tests.scripts.why.queueing import queue, waits, without
from tests.scripts.why.states import STATES

GROUP = {
    "coveredResources": ["cpu", GPU],
    "flavors": [{"name": "a100", "resources": [{"name": "cpu"}, {"name": GPU, "nominalQuota": 4}]}],
}
POD = "/spec/replicatedJobs/0/template/spec/template"
SELECTOR = {"example.com/pool": "b", "zone": "1"}


def selected(selector: Object) -> View:
    said = "workload namespace doesn't match ClusterQueue selector"
    return waits(pending(said), cluster=queue("gpus", namespaceSelector=selector))


def checked(*checks: str) -> View:
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    made = without("AdmissionCheckNotFound", "AdmissionCheck(s): capacity.")
    spec = {**made["spec"], "admissionChecksStrategy": strategy}
    return waits(pending("ClusterQueue gpus is inactive"), cluster={**made, "spec": spec})


def short(said: str) -> View:
    text = f"couldn't assign flavors to pod set node: {said}"
    return waits(pending(text), cluster=queue("gpus", resourceGroups=[GROUP]))


def matched(said: str, pod: Object) -> View:
    run = suspended()
    template = template_of(run)
    template["spec"] |= pod
    template["metadata"]["annotations"] = {f"{KUEUE}/podset-required-topology": "rack"}
    flavors = [{"metadata": {"name": "a100"}, "spec": {"nodeLabels": {"example.com/pool": "a"}}}]
    made = waits(pending(said), list_resourceflavors=listed(flavors))
    made.snapshot.answers["get jobsets"] = Answer(status=200, content=run)  # type: ignore[index]
    return made


MOST = (
    f"insufficient quota for {GPU} in flavor a100, previously considered podsets requests (0) + "
    "current podset request (16) > maximum capacity (8)"
)
LEVEL = 'Flavor "a100" does not contain the requested level'
NO_ROOM = 'topology "default" allows to fit only 1 out of 2 pod(s)'
REQUIRED = f"{POD}/metadata/annotations/kueue.x-k8s.io~1podset-required-topology"
PREFERRED = REQUIRED.replace("required", "preferred")
QUOTA = "/spec/resourceGroups/0/flavors/0/resources"
TAINT = "untolerated taint {pool  NoSchedule <nil>} in flavor a100"
TOLERATION = {"key": "pool", "operator": "Equal", "value": "", "effect": "NoSchedule"}


def op(kind: str, path: str, value: Any = None) -> Object:
    return {"op": kind, "path": path} | ({} if kind == "remove" else {"value": value})


PATCHES: dict[str, tuple[View, Any]] = {
    "check": (checked("capacity", "b"), {"admissionChecks": [{"name": "b"}]}),
    "only check": (checked("capacity"), None),
    "quota": (short(MOST), [op("add", f"{QUOTA}/1/nominalQuota", "12")]),
    "tolerations": (
        matched(TAINT, {"tolerations": [{"key": "x"}]}),
        [op("add", f"{POD}/spec/tolerations/-", TOLERATION)],
    ),
    "no tolerations": (
        matched(TAINT, {"tolerations": []}),
        [op("add", f"{POD}/spec/tolerations", [TOLERATION])],
    ),
    "selector": (
        matched("flavor a100 doesn't match node affinity", {"nodeSelector": SELECTOR}),
        [op("add", f"{POD}/spec/nodeSelector/example.com~1pool", "a")],
    ),
    "topology": (matched(NO_ROOM, {}), [op("remove", REQUIRED), op("add", PREFERRED, "rack")]),
    "level": (matched(LEVEL, {}), [op("remove", REQUIRED)]),
}
"""A state, and the patch of the first command that has one."""


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_changes_what_the_state_names_and_nothing_else(name: str) -> None:
    made, wanted = PATCHES[name]
    [command, *more] = [each for each in explain(made)[0].commands if " get " not in each]
    words = shlex.split(command)
    patch = json.loads(words[words.index("-p") + 1])
    if isinstance(patch, dict):
        assert [*patch] == ["spec"] and [*patch["spec"]] == ["admissionChecksStrategy"]
        patch = patch["spec"]["admissionChecksStrategy"]
    assert patch == wanted
    # Kueue sees a change of tolerations, not of selectors and topologies; Jobs keep their topology
    jobs = "kubectl delete jobs -l jobset.sigs.k8s.io/jobset-name=dpo -n team"
    workload = "kubectl delete workload jobset-dpo-1 -n team --wait=false"
    again = {"selector": [workload], "topology": [jobs, workload], "level": [jobs, workload]}
    assert more == again.get(name, [])


def queues(*names: str) -> View:
    said = "LocalQueue gpu doesn't exist"
    there = [{"metadata": {"name": name, "namespace": "team"}} for name in names]
    there.append({"metadata": {"name": "gpu-2", "namespace": "other"}})
    return waits(pending(said), list_localqueues_everywhere=listed(there))


SHOWN: dict[str, tuple[View, str]] = {
    "labels": (selected({"matchLabels": {"team": "a", "tier": "b"}}), "team team=a tier=b --over"),
    "expression": (
        selected({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}),
        "namespace team k=v --overwrite",
    ),
    "nearest queue": (queues("gpus", "cpu"), "queue-name=gpus --overwrite"),
    "only queue": (queues("large"), "queue-name=large --overwrite"),
    "several queues": (queues("large", "small"), "queue-name=QUEUE --overwrite"),
    "quota of all flavors": (
        short("resource rdma/hca unavailable in ClusterQueue"),
        f'{{"op":"add","path":"{QUOTA}/-","value":{{"name":"rdma/hca","nominalQuota":"QUOTA"}}}}',
    ),
    "key of a Secret": (STATES["key-missing"][0](), '\'{"stringData":{"token":"VALUE"}}\''),
    "level of pods": (STATES["pods-refused-security"][0](), "enforce=baseline --overwrite"),
    "quota of both pods": (
        STATES["pods-refused-quota"][0](),
        '\'{"spec":{"hard":{"requests.nvidia.com/gpu":"24"}}}\'',
    ),
    "flavor": (STATES["flavor-missing"][0](), '"kind":"ResourceFlavor","metadata":{"name":"a100"}'),
}
"""A state, and a part of its remedy."""


@pytest.mark.parametrize("name", SHOWN)
def test_a_command_names_what_is_known_and_asks_a_person_for_the_rest(name: str) -> None:
    made, part = SHOWN[name]
    [first, *_] = explain(made)
    assert part in first.remedy
    is_open = any(word in part for word in ("QUEUE", "QUOTA", "VALUE"))
    assert is_open != any(part in each for each in first.commands)
