"""The cluster's values give way to this machine's."""

from pathlib import Path

import yaml

from scripts.demo.sources import VALUES
from scripts.helm import ROOT, template
from scripts.local.overlay import free_ports, overlay
from scripts.local.pods import expand
from scripts.local.volumes import place
from scripts.manifest import parse


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_users_cluster_values_run_here_under_the_overlay(tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(yaml.safe_dump(overlay(tmp_path, 1234, 1235)))
    values = ROOT / "values" / "a100-2node.yaml"
    jobset = parse(template("run", [values, file], ["code.existingSecret="]))
    pod = expand(jobset)[0]
    env = {item["name"]: item.get("value") for item in pod.job.container["env"]}
    assert env["DPO_WORKSPACE"] == str(tmp_path)
    assert (env["DPO_MASTER_PORT"], env["DPO_GANG_PORT"]) == ("1234", "1235")
    place(pod, tmp_path / "pod", tmp_path / "scratch", jobset.files)


def test_the_overlay_takes_the_queue_away(tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(yaml.safe_dump(overlay(tmp_path, 2001, 2002)))
    queued = tmp_path / "queued.yaml"
    queue = "{queue: team-a, maxExecTimeSeconds: 60, forceDeleteOnNodeFailure: true}"
    queued.write_text(f"kueue: {queue}\n")
    assert "queue-name" in template("run", [VALUES, queued])
    assert "queue-name" not in template("run", [VALUES, queued, file])


def test_the_overlay_takes_the_fabric_away(tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(yaml.safe_dump(overlay(tmp_path, 2001, 2002)))
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(
        "network: {profile: ib-sriov, attachment: team-a/fabric, transport: NET/IB}\n"
    )
    rendered = template("run", [VALUES, fabric, file])
    assert "team-a/fabric" not in rendered
    [job] = parse(rendered).jobs
    env = {item["name"]: item.get("value") for item in job.container["env"]}
    assert env["DPO_NETWORK_TRANSPORT"] == "NET/Socket"


def test_the_overlay_takes_jobsets_agent_away(tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(yaml.safe_dump(overlay(tmp_path, 2001, 2002)))
    agent = tmp_path / "agent.yaml"
    agent.write_text("restarts: {agentImage: example.com/agent:v1}\n")
    assert "restart-agent" in template("run", [VALUES, agent])
    assert "restart-agent" not in template("run", [VALUES, agent, file])
