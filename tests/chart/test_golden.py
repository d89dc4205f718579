"""One golden manifest per values file, compared as parsed YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.chart.helm import ROOT, Document, template_file, walk

FILES = sorted((ROOT / "values").glob("*.yaml"))
GOLDEN = Path(__file__).with_name("golden")
SOURCES = "checksum/launchers"


def without_sources(documents: list[Document]) -> list[Document]:
    """Leave out the launchers' text, which other tests compare with the files."""
    for _, node in walk(documents):
        if isinstance(node, dict) and SOURCES in node:
            node[SOURCES] = "-"
        if isinstance(node, dict) and node.get("kind") == "ConfigMap":
            data = node["data"]
            node["data"] = {"recipe.yaml": yaml.safe_load(data["recipe.yaml"])}
    return documents


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_manifest_is_the_golden_one(file: Path, update_golden: bool) -> None:
    rendered = without_sources(template_file(file))
    golden = GOLDEN / file.name
    if update_golden:
        golden.write_text(yaml.safe_dump_all(rendered, width=100), encoding="utf-8")
    assert golden.exists(), f"no golden manifest of values/{file.name}: run `make golden`"
    expected = list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))
    assert rendered == expected, "look at the difference; if it is wanted, run `make golden`"


def test_no_golden_manifest_is_left_over() -> None:
    assert {p.name for p in GOLDEN.glob("*.yaml")} <= {p.name for p in FILES}


def test_the_users_file_holds_the_two_node_run() -> None:
    documents = template_file(ROOT / "values" / "a100-2node.yaml")
    assert [document["kind"] for document in documents] == ["ConfigMap", "JobSet"]
    [config, jobset] = documents
    args = yaml.safe_load(config["data"]["recipe.yaml"])["args"]
    assert (args["lr"], args["min_lr"], args["moe_aux_loss_coeff"]) == ("5e-06", "5e-07", "0.001")
    assert (args["tensor_model_parallel_size"], args["global_batch_size"]) == ("4", "128")
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    [node] = jobset["spec"]["replicatedJobs"]
    assert (node["name"], node["replicas"]) == ("node", 1)
    assert node["template"]["spec"]["completions"] == 2
    limits = node["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "8"
    assert limits["rdma/hca_shared_devices_a"] == "1"
