"""Changes that an upgrade may make; the cluster's objects are read from a file here."""

import json
import re
from pathlib import Path

import pytest

from tests.chart.helm import CHART, Document, kind, merged, objects, template
from tests.chart.upgrades import changes, put, render, upgrade

QUEUED: Document = {"kueue": {"queue": "gpu", "priorityClass": "low"}, "ttlSecondsAfterFinished": 9}
CLAIM: Document = {"workspace": {"existingClaim": None, "pvc": {"size": "2Gi"}}}
ARGS: Document = {"recipe": {"args": {"lr": 5e-6, "seed": 7}}}
OTHER: Document = {"image": {"tag": "other"}}


def test_the_same_values_pass(chart: Path) -> None:
    put(chart, QUEUED, CLAIM, ARGS)
    assert upgrade(chart, QUEUED, CLAIM, ARGS) == ""


def test_what_the_controllers_let_change_passes(chart: Path) -> None:
    put(chart, QUEUED, CLAIM)
    other: Document = {"ttlSecondsAfterFinished": None, "kueue": {"priorityClass": "high"}}
    larger: Document = {"workspace": {"pvc": {"size": "3Gi"}}}
    assert upgrade(chart, QUEUED, CLAIM, other, larger) == ""


def test_a_deleted_config_map_comes_back_only_with_what_the_run_has(chart: Path) -> None:
    """Without a JobSet too there may be no cluster to ask."""
    put(chart, ARGS, without="ConfigMap")
    assert upgrade(chart, ARGS) == ""
    text = upgrade(chart, {"recipe": {"args": {"lr": 1e-5, "seed": 7}}})
    restored = "helm -n default get manifest run | kubectl -n default apply -f -"
    assert f"restore it with: {restored}" in text
    assert "[upgrade-configmap]" in text
    assert [each.partition(":")[0] for each in changes(upgrade(chart, ARGS, OTHER))] == ["pods"]
    live = json.loads((chart / "live.json").read_text())
    [job] = live["JobSet"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["metadata"]["annotations"]["checksum/launchers"] = "0"
    (chart / "live.json").write_text(json.dumps(live))
    assert "[upgrade-configmap]" in upgrade(chart, ARGS)
    (chart / "live.json").write_text("{}")
    assert upgrade(chart, ARGS) == ""


def test_a_changed_recipe_is_named_by_its_keys(chart: Path) -> None:
    put(chart, ARGS)
    other = {"recipe": {"model": "hf://org/other@main", "args": {"lr": 1e-5, "seed": 7}}}
    assert changes(upgrade(chart, other)) == ["recipe: model, args.lr"]
    more = {"recipe": {"args": {"lr": 5e-6, "beta": 1}}}
    assert changes(upgrade(chart, more)) == ["recipe: args.beta, args.seed"]
    best = {"export": "best", "args": {"split_dataset_ratio": 0.01}}
    for given, named in (
        ({"reference": "precomputed"}, "reference"),
        ({"pairWeights": "pack"}, "pairWeights"),
        ({"allowVersionChange": True}, "allowVersionChange"),
        ({"checkFirstStep": False}, "checkFirstStep"),
        (best, "export, args.split_dataset_ratio"),
    ):
        assert changes(upgrade(chart, ARGS, {"recipe": given})) == [f"recipe: {named}"]


def test_the_refusal_says_what_to_do(chart: Path) -> None:
    put(chart)
    text = upgrade(chart, OTHER, flags=("-n", "ml"))
    cause = "release run is one run, and an upgrade cannot change these parts of it:"
    assert f"{cause}\n- pods: image, nodes" in text
    assert "helm -n ml get values run" in text
    assert "Install under another name, or uninstall with" in text
    assert "helm -n ml uninstall run --cascade foreground --wait" in text


@pytest.mark.parametrize(
    "layer",
    [
        OTHER,
        {"extraEnv": {"A": "1"}},
        {"restarts": {"max": 6}},
        {"podAnnotations": {"a": "b"}},
        {"stages": {"train": {"skip": True}}},
        {"restarts": {"nodeLostSeconds": 61}},
        {"kueue": {"queue": "gpu", "topology": {"mode": "required", "key": "rack"}}},
    ],
)
def test_any_other_part_of_the_spec_is_refused(chart: Path, layer: Document) -> None:
    put(chart, QUEUED)
    [change] = changes(upgrade(chart, QUEUED, layer))
    assert change.startswith("pods: ")


def test_a_changed_recipe_alone_is_not_reported_as_changed_pods(chart: Path) -> None:
    put(chart, ARGS)
    both = {"recipe": {"args": {"lr": 1e-5, "seed": 7}}, **OTHER}
    assert [c.partition(":")[0] for c in changes(upgrade(chart, both))] == ["recipe", "pods"]


@pytest.mark.parametrize("older", [{"checksum/launchers": "0" * 64}, None])
def test_another_version_of_the_launcher_is_refused(chart: Path, older: Document | None) -> None:
    put(chart)
    live = json.loads((chart / "live.json").read_text())
    live["ConfigMap"]["metadata"]["annotations"] = older
    live["ConfigMap"]["metadata"]["labels"]["helm.sh/chart"] = "megatron-dpo-0.0.9"
    (chart / "live.json").write_text(json.dumps(live))
    [change] = changes(upgrade(chart))
    cause = "launchers: the launcher's code; upgrade with the chart of the installation"
    assert change.startswith(cause) and change.endswith("(megatron-dpo-0.0.9)")


def test_a_run_of_an_image_with_the_launcher_has_no_code_to_compare(chart: Path) -> None:
    image: Document = {"launcher": {"from": "image"}}
    put(chart, image)
    assert upgrade(chart, image) == ""
    assert [c.partition(":")[0] for c in changes(upgrade(chart))] == ["launchers", "pods"]


def test_a_run_that_is_gone_is_not_started_by_an_upgrade(chart: Path) -> None:
    put(chart, without="JobSet")
    [change] = changes(upgrade(chart))
    assert change.startswith("JobSet: deleted, or finished more than ttlSecondsAfterFinished")


def test_a_release_of_an_older_chart_is_compared_as_far_as_it_goes(chart: Path) -> None:
    put(chart, ARGS)
    live = json.loads((chart / "live.json").read_text())
    del live["JobSet"]["metadata"]["annotations"]
    (chart / "live.json").write_text(json.dumps(live))
    assert changes(upgrade(chart, ARGS, OTHER)) == []
    assert changes(upgrade(chart, OTHER)) == ["recipe: args.lr, args.seed"]


def test_without_a_cluster_and_at_an_installation_nothing_is_compared(chart: Path) -> None:
    put(chart)
    assert template(merged(OTHER), chart=chart, is_cached=False)
    (chart / "live.json").write_text("{}")
    assert upgrade(chart, OTHER) == ""
    assert template(merged(OTHER), "--is-upgrade")


def test_content_does_not_depend_on_the_cluster(chart: Path) -> None:
    """But for the launcher's source: a run keeps the ConfigMaps that it began with."""
    users = []
    for file in sorted(p for p in CHART.rglob("templates/**/*") if p.is_file()):
        text = re.sub(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", "", file.read_text(), flags=re.DOTALL)
        if re.search(r"\blookup\b|megatron-dpo\.clusterState\b", text):
            users.append(file.name)
    assert users == ["_names.tpl", "_cluster_state.tpl", "_upgrade.tpl"]
    put(chart, QUEUED)
    compared = render(chart, QUEUED)
    (chart / "live.json").write_text("{}")
    assert compared == render(chart, QUEUED)


def test_the_digest_is_that_of_the_spec() -> None:
    def digest(*layers: Document) -> str:
        jobset = kind(objects(template(merged(*layers))), "JobSet")
        return str(jobset["metadata"]["annotations"]["checksum/spec"])

    assert digest() == digest({"ttlSecondsAfterFinished": 3}) == digest(ARGS)
    assert digest() != digest(OTHER)
