"""One golden manifest per values file, compared as parsed YAML, and the NOTES word for word."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
import yaml

from tests.chart.fabrics import PROFILES, selected
from tests.chart.helm import (
    CHART,
    ROOT,
    Document,
    call,
    jobs,
    layers,
    merged,
    render,
    template_file,
    walk,
)
from tests.chart.test_crd import FULL

FILES = sorted((ROOT / "values").glob("*.yaml"))
ALONE = [file for file in FILES if len(layers(file)) == 2]
ADDED = [
    *(file for file in FILES if file not in ALONE),
    *(f for folder in ("hardware", "baselines") for f in (ROOT / "values" / folder).glob("*")),
]
"""Files that are added to a100-2node.yaml."""
GOLDEN = Path(__file__).with_name("golden")
SOURCES = "checksum/launchers"
LAYERS: dict[str, Document] = {
    "every-option": FULL,
    "lost": {"nodes": 1, "workspace": {"existingClaim": None, "emptyDir": {}}},
    "export": {
        "workspace": {"existingClaim": None, "subPath": "a", "nfs": {"server": "h", "path": "/e"}},
        "extraVolumes": [{"name": "disk", "hostPath": {"path": "/mnt"}}],
        "podSecurityContext": {"runAsNonRoot": False, "seccompProfile": {"type": "Unconfined"}},
        "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"drop": ["KILL"]}},
    },
}
"""Values of the cases whose NOTES say something else."""
NOTES = [*(file.stem for file in FILES), *LAYERS]


def without_sources(documents: list[Document]) -> list[Document]:
    """Leave out the launcher's archive, which other tests compare with the files."""
    for _, node in walk(documents):
        if isinstance(node, dict) and SOURCES in node:
            node[SOURCES] = "-"
        if isinstance(node, dict) and node.get("kind") == "ConfigMap":
            if "data" in node:
                node["data"]["recipe.yaml"] = yaml.safe_load(node["data"]["recipe.yaml"])
            node["binaryData"] = dict.fromkeys(node["binaryData"], "-")
    return documents


@pytest.mark.parametrize("file", ALONE, ids=lambda file: file.stem)
def test_the_manifest_is_the_golden_one(file: Path, update_golden: bool) -> None:
    rendered = without_sources(template_file(file))
    golden = GOLDEN / file.name
    if update_golden:
        golden.write_text(yaml.safe_dump_all(rendered, width=100), encoding="utf-8")
    assert golden.exists(), f"no golden manifest of values/{file.name}: run `make golden`"
    expected = list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))
    assert rendered == expected, "look at the difference; if it is wanted, run `make golden`"


def test_the_manifest_of_every_option_is_the_golden_one(update_golden: bool) -> None:
    rendered = without_sources(render(FULL))
    golden = GOLDEN / "every-option.yaml"
    if update_golden:
        golden.write_text(yaml.safe_dump_all(rendered, width=100), encoding="utf-8")
    expected = list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))
    assert rendered == expected, "look at the difference; if it is wanted, run `make golden`"


def template_of_the_gang(profile: str) -> list[str]:
    """Return the gang's pod template as lines of YAML."""
    documents = without_sources(render(selected(profile)))
    return yaml.safe_dump(jobs(documents)["node"]["template"], width=100).splitlines()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_network_changes_is_the_golden_change(profile: str, update_golden: bool) -> None:
    both = (template_of_the_gang("custom"), template_of_the_gang(profile))
    changed = "\n".join([*difflib.unified_diff(*both, "custom", profile, n=1, lineterm=""), ""])
    golden = GOLDEN / f"network-{profile}.diff"
    if update_golden:
        golden.write_text(changed, encoding="utf-8")
    assert changed == golden.read_text(encoding="utf-8"), (
        "look at the difference; if it is wanted, run `make golden`"
    )


def lines_of(file: Path) -> list[str]:
    """Return a file's manifest as lines of YAML, under one name and without its checksums."""
    documents = without_sources(template_file(file, name="run"))
    lines = yaml.safe_dump_all(documents, width=100).splitlines()
    return [line for line in lines if "checksum/" not in line]


@pytest.mark.parametrize("file", ADDED, ids=lambda file: file.stem)
def test_what_an_added_file_changes_is_the_golden_change(file: Path, update_golden: bool) -> None:
    both = (lines_of(ROOT / "values" / "a100-2node.yaml"), lines_of(file))
    lines = difflib.unified_diff(*both, "a100-2node", file.stem, n=0, lineterm="")
    # without numbers of lines, which move in all files when one line comes to the base
    changed = "\n".join([*("@@" if line.startswith("@@") else line for line in lines), ""])
    golden = GOLDEN / f"{file.parent.name}-{file.stem}.diff"
    if update_golden:
        golden.write_text(changed, encoding="utf-8")
    assert golden.exists(), f"no golden change of {file.name}: run `make golden`"
    assert changed == golden.read_text(encoding="utf-8"), (
        "look at the difference; if it is wanted, run `make golden`"
    )


@pytest.mark.parametrize("case", NOTES)
def test_the_notes_are_the_golden_ones(case: str, tmp_path: Path, update_golden: bool) -> None:
    file = ROOT / "values" / f"{case}.yaml"
    if case in LAYERS:
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(merged(LAYERS[case])), encoding="utf-8")
    command = ("install", "dpo-42", str(CHART), "--dry-run=client", "-n", "ml")
    done = call(*command, *layers(file))
    assert done.returncode == 0, done.stderr
    notes = "\n".join(line.rstrip() for line in done.stdout.partition("NOTES:\n")[2].splitlines())
    golden = GOLDEN / f"{case}.txt"
    if update_golden:
        golden.write_text(f"{notes.strip()}\n", encoding="utf-8")
    assert f"{notes.strip()}\n" == golden.read_text(encoding="utf-8"), (
        "look at the difference; if it is wanted, run `make golden`"
    )


def test_no_golden_file_is_left_over() -> None:
    names = {p.name for p in ALONE} | {"every-option.yaml"} | {f"{case}.txt" for case in NOTES}
    names |= {f"network-{profile}.diff" for profile in PROFILES}
    names |= {f"{file.parent.name}-{file.stem}.diff" for file in ADDED}
    assert {p.name for p in GOLDEN.iterdir()} == names


def test_the_users_file_holds_the_two_node_run() -> None:
    documents = template_file(ROOT / "values" / "a100-2node.yaml")
    assert [document["kind"] for document in documents] == [
        "ConfigMap",
        "ConfigMap",
        "JobSet",
        "Pod",
    ]
    [config, _, jobset, _] = documents
    args = yaml.safe_load(config["data"]["recipe.yaml"])["args"]
    assert (args["lr"], args["min_lr"], args["moe_aux_loss_coeff"]) == ("5e-06", "5e-07", "0.001")
    assert (args["tensor_model_parallel_size"], args["global_batch_size"]) == ("1", "64")
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    [node] = jobset["spec"]["replicatedJobs"]
    assert (node["name"], node["replicas"]) == ("node", 1)
    assert node["template"]["spec"]["completions"] == 2
    limits = node["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "8"
    assert limits["rdma/hca_shared_devices_a"] == "1"
