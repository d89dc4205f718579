"""`restarts.agentImage`: JobSet's restarts in place, as its webhook and KEP-467 require them."""

import pytest

from launchers.exits import FREE, USER, Exit
from tests.chart import judged
from tests.chart.helm import Document, jobs, kind, merged, pod, render
from tests.chart.test_crd import mistakes

IMAGE = "registry.example.com/in-place-restart-agent:v0.12.0"
AGENT: Document = {"restarts": {"agentImage": IMAGE}}
CLASHING = {"name": "restart-agent", "image": "a:v1"}


def containers(values: Document) -> tuple[Document, Document]:
    spec = pod(render(values))
    return spec["initContainers"][-1], spec["containers"][0]


def test_without_an_agent_nothing_of_it_is_rendered() -> None:
    text = str(render())
    assert "RestartAllContainers" not in text
    assert "restart-agent" not in text and "agent-token" not in text


def test_the_jobset_is_what_jobsets_webhook_accepts() -> None:
    found = render(AGENT)
    jobset = kind(found, "JobSet")
    assert mistakes(jobset) == []
    assert jobset["spec"]["failurePolicy"]["restartStrategy"] == "InPlaceRestart"
    for job in jobs(found).values():
        # pkg/webhooks/jobset_webhook.go of JobSet: MaxInt32, Failed, completions = parallelism.
        assert job["backoffLimit"] == 2**31 - 1
        assert job["podReplacementPolicy"] == "Failed"
        assert job["completions"] == job["parallelism"]


def test_what_must_not_restart_in_place_still_fails_the_job() -> None:
    _, launcher = containers(AGENT)
    [rule] = launcher["restartPolicyRules"]
    assert (launcher["restartPolicy"], rule["action"]) == ("Never", "RestartAllContainers")
    assert rule["exitCodes"]["operator"] == "NotIn"
    assert set(rule["exitCodes"]["values"]) == {int(code) for code in (Exit.OK, *FREE, *USER)}
    before, after = (jobs(render(values))["node"] for values in ({}, AGENT))
    assert after["podFailurePolicy"] == before["podFailurePolicy"]


def test_the_agent_restarts_its_pod_by_an_exit_code_that_no_launcher_has() -> None:
    agent, _ = containers(AGENT)
    env = {variable["name"]: variable.get("value") for variable in agent["env"]}
    code = int(str(env["IN_PLACE_RESTART_EXIT_CODE"]))
    assert code not in {int(each) for each in Exit}
    [rule] = agent["restartPolicyRules"]
    assert rule["exitCodes"] == {"operator": "In", "values": [code]}
    assert env["JOBSET_NAME"] == "run"
    assert str(agent["startupProbe"]["httpGet"]["port"]) == env["STARTUP_PROBE_PORT"]


def test_the_agent_comes_after_all_init_containers_and_before_the_launcher() -> None:
    more = {"name": "late", "image": "example.com/late:v1"}
    spec = pod(render(AGENT, {"extraInitContainers": [more]}))
    assert [each["name"] for each in spec["initContainers"]] == ["late", "restart-agent"]
    assert spec["initContainers"][-1]["restartPolicy"] == "Always"


def test_only_the_agent_has_a_token_and_it_may_only_mark_pods_and_read_its_jobset() -> None:
    found = render(AGENT)
    spec = pod(found)
    assert spec["automountServiceAccountToken"] is False
    agent, launcher = spec["initContainers"][-1], spec["containers"][0]
    assert [mount["name"] for mount in agent["volumeMounts"]] == ["agent-token"]
    assert "agent-token" not in {mount["name"] for mount in launcher["volumeMounts"]}
    assert kind(found, "Role")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {
            "apiGroups": ["jobset.x-k8s.io"],
            "resources": ["jobsets"],
            "resourceNames": ["run"],
            "verbs": ["get", "list", "watch"],
        },
    ]
    [subject] = kind(found, "RoleBinding")["subjects"]
    account = kind(found, "ServiceAccount")["metadata"]["name"]
    assert subject["name"] == spec["serviceAccountName"] == account


def test_a_token_for_another_service_is_accepted() -> None:
    token = {"path": "token", "audience": "vault"}
    volume = {"name": "vault", "projected": {"sources": [{"serviceAccountToken": token}]}}
    mount = {"name": "vault", "mountPath": "/vault"}
    _, launcher = containers({**AGENT, "extraVolumes": [volume], "extraVolumeMounts": [mount]})
    assert mount in launcher["volumeMounts"]


def test_an_account_that_is_given_gets_the_permissions() -> None:
    found = render(AGENT, {"serviceAccountName": "dpo"})
    assert kind(found, "RoleBinding")["subjects"][0]["name"] == "dpo"
    assert not [each for each in found if each["kind"] == "ServiceAccount"]


@pytest.mark.parametrize(
    ("values", "id"),
    [
        ({"restarts": {"agentImage": "example.com/agent:latest"}}, "image-mutable"),
        ({"restarts": {"agentImage": "example.com/agent"}}, "image-mutable"),
        ({"extraVolumes": [{"name": "agent-token", "emptyDir": {}}]}, "volume-name"),
        ({"extraInitContainers": [CLASHING]}, "init-container-name"),
    ],
)
def test_what_would_clash_with_the_agent_is_refused(values: Document, id: str) -> None:
    [line] = judged.lines(merged(AGENT, values))
    assert line.endswith(f" [{id}]")


def test_a_digest_is_accepted() -> None:
    image = f"example.com/agent@sha256:{'0' * 64}"
    agent, _ = containers({"restarts": {"agentImage": image}})
    assert agent["image"] == image
