"""Metrics in the chart: port, PodMonitor and dashboard are opt-ins."""

import json
import re
from typing import Any

from launchers.progress import notify, prometheus
from tests.chart import helm
from tests.chart.helm import BASE, CHART, LIBRARY, STAGED, Document, env, jobs, kind, pod, render
from tests.launchers.progress.test_exporter import DOCUMENT

ON = {"monitoring": {"port": 9400, "podMonitor": True, "dashboard": True}}


def test_nothing_is_rendered_by_default() -> None:
    found = render(BASE)
    assert {each["kind"] for each in found} == {"JobSet", "ConfigMap", "Pod"}
    assert sum(each["kind"] == "ConfigMap" for each in found) == 2
    assert "ports" not in pod(found)["containers"][0]
    assert "DPO_METRICS_PORT" not in env(found)


def test_only_the_gang_has_the_port() -> None:
    found = render(BASE, ON, STAGED)
    assert {"clone", "download", "node"} <= set(jobs(found))
    for role in ("clone", "download", "node"):
        ports = [{"name": "metrics", "containerPort": 9400}] if role == "node" else None
        assert pod(found, role)["containers"][0].get("ports") == ports
        assert ("DPO_METRICS_PORT" in env(found, role)) == (role == "node")


def test_the_pod_monitor_selects_rank_0() -> None:
    monitor = kind(render(BASE, ON), "PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"] == {
        "jobset.sigs.k8s.io/jobset-name": monitor["metadata"]["name"],
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "path": "/metrics"}]


def test_the_dashboard_is_the_file() -> None:
    [rendered] = [
        each["data"]["megatron-dpo.json"]
        for each in render(BASE, ON)
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith("-dashboard")
    ]
    assert json.loads(rendered) == dashboard()


def test_each_query_of_the_dashboard_finds_metrics_in_a_scrape() -> None:
    scrape = prometheus.text(DOCUMENT)
    served = {line.split("{")[0]: line for line in scrape.splitlines() if line[0] != "#"}
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    queries += [each["query"]["query"] for each in dashboard()["templating"]["list"][1:]]
    assert len(queries) > 12
    for query in queries:
        names = re.findall(r"dpo_\w+", query)
        assert names, query
        for name in names:
            assert name in served, query
        for label in re.findall(r"[{,](\w+)=", query):
            assert f"{label}=" in served[names[0]], query
    unused = {"dpo_run_started_timestamp_seconds", "dpo_run_code", "dpo_held_out_step"}
    assert set(served) - set(re.findall(r"dpo_\w+", " ".join(queries))) == unused


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CHART / LIBRARY / "dashboard.json").read_text())
    return document


def test_trackers_reach_the_recipe_and_the_gang_only() -> None:
    wandb = {"existingSecret": "keys", "key": "wb", "project": "p", "url": "https://wb.example"}
    swanlab = {"offline": True, "url": "https://sl.example/"}
    on = {"monitoring": {"trackers": {"wandb": wandb, "swanlab": swanlab}}}
    found = render(BASE, on, STAGED, {"extraEnv": {"WANDB_PROJECT": "mine"}})
    assert helm.recipe(found)["trackers"] == ["wandb", "swanlab"]
    reference = {"secretKeyRef": {"name": "keys", "key": "wb"}}
    wanted = {
        "WANDB_API_KEY": reference,
        "WANDB_BASE_URL": "https://wb.example",
        "WANDB_PROJECT": "mine",  # extraEnv counts
        "SWANLAB_MODE": "offline",
        "SWANLAB_WEB_HOST": "https://sl.example/",
        "SWANLAB_API_HOST": "https://sl.example/api",
    }
    assert {k: v for k, v in env(found).items() if k in wanted} == wanted
    assert "SWANLAB_API_KEY" not in env(found)
    assert not {"WANDB_API_KEY", "WANDB_BASE_URL"} & set(env(found, "download"))
    assert "trackers" not in helm.recipe(render(BASE))


def test_the_webhooks_url_is_a_reference_of_the_gang() -> None:
    found = render(BASE, {"monitoring": {"webhook": {"existingSecret": "hook"}}})
    reference = {"secretKeyRef": {"name": "hook", "key": "url"}}
    assert env(found)["DPO_WEBHOOK_URL"] == reference
    assert env(found)["DPO_WEBHOOK_WAIT"] == "900"
    assert "DPO_WEBHOOK_URL" not in env(render(BASE))


def test_events_need_a_right_that_nothing_else_has() -> None:
    found = render(BASE, {"monitoring": {"events": True}}, STAGED)
    account, binding = kind(found, "ServiceAccount"), kind(found, "RoleBinding")
    [subject] = binding["subjects"]
    assert subject["name"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == kind(found, "Role")["metadata"]["name"]
    rules = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    assert kind(found, "Role")["rules"] == rules
    for role in ("clone", "download", "node"):
        spec = pod(found, role)
        assert spec["automountServiceAccountToken"] is False
        readers = {container for container, _ in mounted(spec, "events-token")}
        assert readers == ({"launcher"} if role == "node" else set())
        assert spec["serviceAccountName"] == subject["name"]
    assert env(found)["DPO_EVENTS"] == "1"


def mounted(spec: Document, volume: str) -> list[tuple[str, str]]:
    return [
        (container["name"], mount["mountPath"])
        for container in (*spec.get("initContainers", ()), *spec["containers"])
        for mount in container.get("volumeMounts", ())
        if mount["name"] == volume
    ]


def test_the_launcher_gets_a_token_of_its_own_where_it_reads_it() -> None:
    sidecar = {"name": "logs", "image": "example.com/logs:v1", "restartPolicy": "Always"}
    values = {"monitoring": {"events": True}, "extraInitContainers": [sidecar]}
    spec = pod(render(BASE, values))
    assert mounted(spec, "events-token") == [("launcher", str(notify.ACCOUNT))]
    [volume] = [each for each in spec["volumes"] if each["name"] == "events-token"]
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    assert volume["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    assert "token" not in str(pod(render(BASE))["volumes"])
