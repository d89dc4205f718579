"""The cluster's values give way to this machine's."""

from pathlib import Path

import pytest
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


QUEUE = "kueue: {queue: team-a, maxExecTimeSeconds: 60, forceDeleteOnNodeFailure: true}"
FABRIC = "network: {profile: ib-sriov, attachment: team-a/fabric, transport: NET/IB}"


@pytest.mark.parametrize(
    ("named", "values"),
    [
        ("queue-name", QUEUE),
        ("team-a/fabric", FABRIC),
        ("restart-agent", "restarts: {agentImage: example.com/agent:v1}"),
    ],
)
def test_the_overlay_takes_away_what_only_a_cluster_has(
    tmp_path: Path, named: str, values: str
) -> None:
    file, own = tmp_path / "local.yaml", tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(overlay(tmp_path, 2001, 2002)))
    own.write_text(values)
    assert named in template("run", [VALUES, own])
    rendered = template("run", [VALUES, own, file])
    assert named not in rendered
    [job] = parse(rendered).jobs
    env = {item["name"]: item.get("value") for item in job.container["env"]}
    assert env["DPO_NETWORK_TRANSPORT"] == "NET/Socket"
