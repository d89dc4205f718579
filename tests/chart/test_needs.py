"""Keys for requirements of clusters, and the field that each renders."""

import re
from typing import Any

import pytest
import yaml

from scripts.dev import pod_rules, pod_schema
from tests.chart import helm, judged
from tests.chart.helm import BASE, CHART, STAGED, Document, Refused, jobs, kind, merged, pod, render
from tests.chart.test_crd import mistakes

ROLES = ("clone", "download", "node")
EVERY = [*ROLES, "test"]
DNS = {"searches": ["example.com"]}
ALIASES = [{"ip": "10.0.0.1", "hostnames": ["hub"]}]
IMAGE: Document = {"launcher": {"from": "image"}}
POLICY: Document = {"networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 443}]}]}}
CLAIM = {"name": "domain", "resourceClaimTemplateName": "dpo-domain"}
SPREAD = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
PAGE = CHART / "CLUSTERS.md"


def specs(values: Document) -> dict[str, Document]:
    return helm.specs(render(BASE, STAGED, values))


@pytest.mark.parametrize(
    "values, field, rendered, roles",
    [
        ({"runtimeClassName": "nvidia"}, "runtimeClassName", "nvidia", ["node"]),
        ({"resourceClaims": [CLAIM]}, "resourceClaims", [CLAIM], ["node"]),
        ({"hostUsers": False}, "hostUsers", False, EVERY),
        ({"dnsConfig": DNS}, "dnsConfig", DNS, EVERY),
        ({"hostAliases": ALIASES}, "hostAliases", ALIASES, EVERY),
        ({"nodeSelector": {"gpu": "yes"}}, "nodeSelector", {"gpu": "yes"}, ["node"]),
        ({"stages": {"nodeSelector": {"cpu": "y"}}}, "nodeSelector", {"cpu": "y"}, ROLES[:2]),
        ({"test": {"nodeSelector": {"cpu": "yes"}}}, "nodeSelector", {"cpu": "yes"}, ["test"]),
        ({"stages": {"affinity": {"podAffinity": {}}}}, "affinity", {"podAffinity": {}}, ROLES[:2]),
        ({"podSpec": {"setHostnameAsFQDN": False}}, "setHostnameAsFQDN", False, ["node"]),
        ({"serviceAccount": {"create": True}}, "serviceAccountName", "run", EVERY),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_of_the_pods_is_of_these_roles_only(
    values: Document, field: str, rendered: Any, roles: list[str]
) -> None:
    before, after = specs({}), specs(values)
    assert {role for role in after if field in after[role]} == set(roles)
    assert all(after[role][field] == rendered for role in roles)
    assert all(field not in spec for spec in before.values())


def test_a_claim_is_used_by_the_launcher() -> None:
    launcher = pod(render(BASE, {"resourceClaims": [CLAIM]}))["containers"][0]
    assert launcher["resources"]["claims"] == [{"name": "domain"}]


def test_a_spread_counts_the_gangs_pods_unless_it_selects_others() -> None:
    rack = {"topologyKey": "example.com/rack"}
    other = {**SPREAD, **rack, "labelSelector": {"matchLabels": {"a": "b"}}}
    found = pod(render(BASE, {"topologySpreadConstraints": [SPREAD, other]}))
    own = {"jobset.sigs.k8s.io/jobset-name": "run", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    first = {**SPREAD, "labelSelector": {"matchLabels": own}}
    assert found["topologySpreadConstraints"] == [first, other]


@pytest.mark.parametrize("role, key", [("download", "stages"), ("test", "test")])
def test_a_role_has_its_own_image_and_tolerations(role: str, key: str) -> None:
    taint = {"key": "cpu", "operator": "Exists"}
    image = {"repository": "example.com/small", "tag": "v1"}
    after = specs({key: {"image": image, "tolerations": [taint]}})
    assert after[role]["containers"][0]["image"] == "example.com/small:v1"
    assert taint in after[role]["tolerations"]
    assert after["node"]["containers"][0]["image"] != "example.com/small:v1"
    assert taint not in after["node"]["tolerations"]
    empty = specs({key: {"image": {"repository": None, "tag": None}}})
    assert empty[role]["containers"][0]["image"] == empty["node"]["containers"][0]["image"]


def test_env_from_is_of_the_launcher_which_knows_its_variables_and_the_charts_win() -> None:
    given = [
        {"secretRef": {"name": "tracker"}, "prefix": "WANDB_"},
        {"configMapRef": {"name": "b"}},
    ]
    before, after = (
        {role: spec["containers"][0] for role, spec in specs(values).items()}
        for values in ({}, {"envFrom": given})
    )
    assert {role for role in after if after[role].get("envFrom") == given} == set(ROLES)
    for role in ROLES:
        env = {v["name"]: v.get("value") for v in after[role]["env"]}
        assert env["DPO_ENV_FROM"] == "Secret/tracker=WANDB_,ConfigMap/b="
        assert set(env["DPO_ENV_NAMES"].split(",")) == set(env)
        assert not {"DPO_ENV_FROM", "DPO_ENV_NAMES"} & {v["name"] for v in before[role]["env"]}
    # Kubernetes: a variable of `env` wins over one of `envFrom` with its name.
    assert {"DPO_NODES", "DPO_MASTER_ADDR"} <= {v["name"] for v in after["node"]["env"]}


def test_init_containers_are_merged_by_name_over_the_profiles() -> None:
    profile = {"network": {"profile": "gke-tcpxo"}}
    before = pod(render(BASE, profile))["initContainers"]
    more = {"name": "metrics", "image": "example.com/metrics:v1", "restartPolicy": "Always"}
    changed = {"name": before[0]["name"], "image": "example.com/plugin:v2"}
    after = pod(render(BASE, profile, {"extraInitContainers": [more, changed]}))["initContainers"]
    assert after == [{**before[0], **changed}, *before[1:], more]


def test_images_of_the_profile_come_from_a_mirror() -> None:
    mirror = {"network": {"profile": "gke-tcpxo", "imageRegistry": "mirror.example.com/gcp"}}
    before, after = (
        [each["image"] for each in pod(render(BASE, layer))["initContainers"]]
        for layer in ({"network": {"profile": "gke-tcpxo"}}, mirror)
    )
    assert after == [f"mirror.example.com/gcp/{image.partition('/')[2]}" for image in before]


def test_pod_spec_is_merged_into_the_pod_and_its_container() -> None:
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    given = {"containers": [{"name": "launcher", "lifecycle": hook}], "setHostnameAsFQDN": True}
    before, after = pod(render(BASE)), pod(render(BASE, {"podSpec": given}))
    assert after["containers"][0].pop("lifecycle") == hook
    assert after.pop("setHostnameAsFQDN") is True
    assert after == before


def test_labels_and_annotations_of_the_jobset() -> None:
    given = {
        "labels": {"kai.scheduler/queue": "team", "gone": None},
        "annotations": {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": 600, "gone": None},
    }
    before, after = (kind(render(BASE, values), "JobSet") for values in ({}, {"jobset": given}))
    old, new = before["metadata"], after["metadata"]
    assert new["labels"] == {**old["labels"], "kai.scheduler/queue": "team"}
    limit = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"}
    assert new["annotations"] == {**old["annotations"], **limit}
    assert after["spec"] == before["spec"]


def test_a_deadline_of_the_jobs_fails_the_run() -> None:
    spec = kind(render(BASE, STAGED, {"jobset": {"activeDeadlineSeconds": 60}}), "JobSet")["spec"]
    for job in spec["replicatedJobs"]:
        assert job["template"]["spec"]["activeDeadlineSeconds"] == 60
    rules = {rule["name"]: rule for rule in spec["failurePolicy"]["rules"]}
    assert rules["deadline"]["action"] == "FailJobSet"
    assert rules["deadline"]["onJobFailureReasons"] == ["DeadlineExceeded"]


def test_the_recipe_travels_with_a_jobset_that_another_cluster_runs() -> None:
    managed = {"jobset": {"managedBy": "kueue.x-k8s.io/multikueue"}, "kueue": {"queue": "team"}}
    found = render(BASE, IMAGE, managed)
    jobset = kind(found, "JobSet")
    assert jobset["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    template = jobs(found)["node"]["template"]
    recipe = kind(found, "ConfigMap")["data"]["recipe.yaml"]
    assert template["metadata"]["annotations"]["megatron-dpo/recipe"].strip() == recipe.strip()
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    [item] = volumes["launchers"]["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['megatron-dpo/recipe']"
    assert helm.env(found)["DPO_RECIPE"].endswith(f"/{item['path']}")
    assert "configMap" not in str(template["spec"]["volumes"])


def test_the_workspace_is_a_csi_volume_or_a_claim_of_a_volume() -> None:
    none = {"workspace": {"existingClaim": ""}}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "runs"}}
    marked = {"podAnnotations": {"gke-gcsfuse/volumes": "true"}}
    volumes = pod(render(BASE, none, {"workspace": {"csi": csi}}, marked))["volumes"]
    assert {"name": "workspace", "csi": csi} in volumes
    claim = render(BASE, none, {"workspace": {"pvc": {"size": "1Ti", "volumeName": "lustre"}}})
    assert kind(claim, "PersistentVolumeClaim")["spec"]["volumeName"] == "lustre"


@pytest.mark.parametrize(
    "pvc, expected",
    [
        ({"volumeName": "lustre", "storageClassName": ""}, ""),  # a volume without a class
        ({"volumeName": "lustre"}, None),
        ({"storageClassName": ""}, None),  # the cluster's default class
        ({"storageClassName": "nfs"}, "nfs"),
    ],
)
def test_a_claim_has_the_class_of_its_volume(pvc: Document, expected: str | None) -> None:
    none: Document = {"workspace": {"existingClaim": None}}
    claim = render(BASE, none, {"workspace": {"pvc": {"size": "1Ti", **pvc}}})
    assert kind(claim, "PersistentVolumeClaim")["spec"].get("storageClassName") == expected


@pytest.mark.parametrize(
    ("memory", "tmp"),
    [
        ("512Ki", "20Gi"),
        # YAML would make them numbers, and the CRD of JobSets takes whole numbers and texts
        ("2e10", "20000000000.5"),
    ],
)
def test_sizes_of_memory_and_tmp_stay_texts(memory: str, tmp: str) -> None:
    sizes = {"sharedMemory": {"sizeLimit": memory}, "tmp": {"sizeLimit": tmp}}
    volumes = {v["name"]: v for v in pod(render(BASE, sizes))["volumes"]}
    assert volumes["shm"]["emptyDir"]["sizeLimit"] == memory
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": tmp}


def test_the_network_policy_allows_the_gang_and_dns() -> None:
    more = {"from": [{"namespaceSelector": {}}], "ports": [{"port": 9400}]}
    found = render(BASE, POLICY, {"networkPolicy": {"ingress": [more]}})
    spec = kind(found, "NetworkPolicy")["spec"]
    selected = spec["podSelector"]["matchLabels"]
    for labels in (jobs(found)["node"]["template"], kind(found, "Pod")):
        assert selected.items() <= labels["metadata"]["labels"].items()
    run = {"podSelector": spec["podSelector"]}
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"from": [run]}, more]
    dns = {"ports": [{"protocol": name, "port": 53} for name in ("UDP", "TCP")]}
    assert spec["egress"] == [dns, {"to": [run]}, {"ports": [{"port": 443}]}]


def test_the_network_policy_lets_the_scraper_of_the_pod_monitor_in() -> None:
    found = render(BASE, POLICY, {"monitoring": {"port": 9400, "podMonitor": True}})
    [_, scraper] = kind(found, "NetworkPolicy")["spec"]["ingress"]
    ports = [{"protocol": "TCP", "port": 9400}]
    assert scraper == {"from": [{"namespaceSelector": {}}], "ports": ports}
    without = render(BASE, POLICY, {"monitoring": {"port": 9400}})
    assert len(kind(without, "NetworkPolicy")["spec"]["ingress"]) == 1


def test_a_created_account_has_its_annotations_and_no_token() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dpo"}
    values = {"serviceAccount": {"create": True, "annotations": role}, "serviceAccountName": "dpo"}
    found = render(BASE, values)
    account = kind(found, "ServiceAccount")
    assert account["metadata"]["name"] == pod(found)["serviceAccountName"] == "dpo"
    assert account["metadata"]["annotations"] == role
    assert account["automountServiceAccountToken"] is False
    assert pod(found)["automountServiceAccountToken"] is False


EVENTS: Document = {"monitoring": {"events": True}}


def test_an_account_for_events_has_its_annotations_and_takes_its_name() -> None:
    found = render(BASE, EVENTS, {"serviceAccount": {"annotations": {"a": "b"}}})
    assert kind(found, "ServiceAccount")["metadata"]["annotations"] == {"a": "b"}
    [line] = judged.lines(merged(EVENTS, {"extraObjects": [account("run")]}))
    assert line.endswith(" [extra-object-name]")


def test_an_account_that_is_given_is_the_users_with_events_too() -> None:
    given = {**EVENTS, "serviceAccountName": "dpo", "extraObjects": [account("dpo")]}
    found = render(BASE, given)
    assert [each for each in found if each["kind"] == "ServiceAccount"] == [account("dpo")]
    [subject] = kind(found, "RoleBinding")["subjects"]
    assert subject["name"] == pod(found)["serviceAccountName"] == "dpo"
    more = merged(given, {"serviceAccount": {"annotations": {"a": "b"}}})
    with pytest.raises(Refused, match="at '/serviceAccount/annotations'"):
        render(more)
    [line] = judged.lines(more)
    assert line.endswith(" [service-account-annotations]")


def account(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def test_each_field_that_the_chart_sets_is_refused_in_pod_spec() -> None:
    types = pod_schema.openapi(helm.KUBERNETES.removesuffix(".0"))
    owned = {
        name: types[name]["properties"].keys() - {*pod_rules.KEPT[name]} for name in pod_rules.OWNED
    }
    container = {"name": "launcher", **dict.fromkeys(owned["Container"], {})}
    given = {**dict.fromkeys(owned["PodSpec"], {}), "containers": [container]}
    refused = helm.rejected(merged({"podSpec": given}))
    text = "\n".join(judged.lines(merged({"podSpec": given})))
    found = re.findall(r"^podSpec[.](\S+): .*\[pod-spec-owned\]$", text, re.M)
    assert {*found} == owned["PodSpec"] | {f"containers[0].{f}" for f in owned["Container"]}
    assert {*found} > {"hostPID", "hostIPC", "volumes", "securityContext", "initContainers"}
    for field in found:
        assert f"at '/podSpec/{re.sub(r'[][]', '/', field).replace('/.', '/')}'" in refused


def test_the_address_of_the_coordinator_fits_into_a_label() -> None:
    coordinator = {"jobset": {"spec": {"coordinator": {"replicatedJob": "node", "podIndex": 1}}}}
    assert judged.lines(merged(coordinator), name="a" * 26) == []
    [line] = judged.lines(merged(coordinator), name="a" * 27)
    assert "has 64 characters" in line and line.endswith(" [release-name-coordinator]")


@pytest.mark.parametrize("name", yaml.safe_load('["true", "no", "007"]'))
def test_names_that_yaml_reads_as_another_type_stay_text(name: str) -> None:
    claims = {"resourceClaims": [{"name": name, "resourceClaimName": "a"}]}
    [claim] = pod(render(BASE, claims))["containers"][0]["resources"]["claims"]
    assert claim == {"name": name}


def rows() -> list[tuple[str, Document]]:
    """Return the rows of the page's table: the need, and its values."""
    cells = re.findall(r"^\| ([^|]+) \| `([^|`]+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    return [(need, yaml.safe_load(values)) for need, values in cells]


@pytest.mark.parametrize("values", [pytest.param(v, id=need) for need, v in rows()])
def test_every_row_of_the_page_renders_what_the_api_accepts(values: Document) -> None:
    found = render(merged(BASE, NEUTRAL, values))
    assert mistakes(kind(found, "JobSet")) == []
    assert found != render(merged(BASE, NEUTRAL))


KEYS = (
    "runtimeClassName", "jobset.labels", "jobset.annotations", "resourceClaims",
    "extraInitContainers", "network.imageRegistry", "stages.nodeSelector", "stages.image",
    "dnsConfig", "hostAliases", "hostUsers", "envFrom", "workspace.csi", "workspace.pvc",
    "jobset.activeDeadlineSeconds", "topologySpreadConstraints", "jobset.managedBy",
    "networkPolicy.enabled", "networkPolicy.egress", "monitoring.port", "monitoring.podMonitor",
    "serviceAccount.create", "serviceAccount.annotations", "tmp.sizeLimit", "schedulerName",
    "restarts.agentImage", "podSpec.containers", "jobset.spec", "extraObjects",
)  # fmt: skip
"""Keys that exist for clusters only, each of which the page has to show."""


def test_the_page_has_a_row_for_every_key_that_is_for_clusters() -> None:
    shown = set[str]()
    for _, values in rows():
        for key, value in values.items():
            below = value if isinstance(value, dict) else {}
            shown |= {key, *(f"{key}.{name}" for name in below)}
    assert set(KEYS) - shown == set()


def test_the_page_names_the_test_of_a_row_that_ran_alone() -> None:
    text = PAGE.read_text(encoding="utf-8")
    results = re.findall(r"^\| [^|]+ \| `[^|`]+` \|[^|]+\| ([a-z ]+) \|$", text, re.M)
    assert len(results) == len(rows())
    assert {*results} == {"ran", "admitted", "ran alone"}
    for name in re.findall(r"`(tests/e2e/test_\w+[.]py)`", text):
        assert (helm.ROOT / name).is_file()


NEUTRAL: Document = {**IMAGE, "kueue": {"queue": "team"}}
"""Values that some rows require and no row changes."""
