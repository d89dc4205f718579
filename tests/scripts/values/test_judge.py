"""The judge on values that Helm merged: one line a mistake, with no line that follows from one."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from launchers.yaml_file import read_yaml
from scripts.helm import CHART
from scripts.values import judge, names, relations, schema, wording

DEFAULTS = read_yaml(CHART / "values.yaml")
CLAIM = {"existingClaim": "a"}


class Templates:
    """Stands for Helm: prints prepared refusals in turn, and keeps what it was given."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.given: list[Mapping[str, Any]] = []

    def merged(self, chart: object) -> str:
        raise AssertionError(chart)

    def rendered(self, values: str) -> tuple[str, str]:
        self.given.append(json.loads(values))
        lines = self.refusals.pop(0)
        return "", f"Error: {judge.OURS}\n{lines}" if lines else ""


@pytest.fixture(autouse=True)
def templates_alone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Leave out the relations in Python, of which tests/refusals has the cases."""
    if "relations" not in request.node.name:
        monkeypatch.setattr(relations, "refusals", lambda _: [])


def test_relations_are_said_with_the_lines_of_the_templates_and_no_line_twice() -> None:
    line = "recipe.args.num_train_epochs: missing, and so is train_iters; set the number of epochs"
    said = judge.judge(values(monitoring={"port": 29400}), Templates(f"- {line} [epochs-missing]"))
    ids = [each.rpartition(" ")[2] for each in said]
    assert ids == ["[epochs-missing]", "[monitoring-port]"]


def values(**more: object) -> dict[str, Any]:
    recipe = {**DEFAULTS["recipe"], "model": "hf://o/m@r"}
    return {**DEFAULTS, "recipe": recipe, "workspace": CLAIM, **more}


def test_what_is_right_is_judged_once() -> None:
    helm = Templates("")
    assert judge.judge(values(), helm) == []
    assert len(helm.given) == 1


def test_a_wrong_value_is_replaced_by_its_default_and_the_rest_is_judged() -> None:
    helm = Templates("- nodes: of Go; no [x]", "- code.url: empty; set it [code-url]")
    lines = judge.judge(values(nodes="two"), helm)
    assert [line.rpartition(" ")[2] for line in lines] == ["[value-type]", "[code-url]"]
    assert "nodes" not in helm.given[1]


def test_a_credential_is_said_first_and_its_place_no_second_time() -> None:
    plain = "- kueue.queue: a credential in plain text; remove it [secret-plain]"
    helm = Templates(plain, "- kueue.queue: empty; set it [kueue-queue]")
    assert judge.judge(values(kueue={"queue": "x"}), helm) == [plain.removeprefix("- ")]


@pytest.mark.parametrize(
    "line, is_shown",
    [
        ("recipe.args: 5 processes (nodes 1 x gpusPerNode 5) [world-model-parallel]", False),
        ("recipe.args.lr: 7 is not a valid rate; use less [lr]", True),
        ("recipe.args.sequence_parallel: needs tensor_model_parallel_size [other]", False),
        ("code.url: a credential in nodes; remove it [code-url-secret]", True),
    ],
)
def test_a_line_that_reads_a_replaced_flag_is_left_out(line: str, is_shown: bool) -> None:
    wrong = values()
    wrong["recipe"]["args"] = {"tensor_model_parallel_size": [1], "lr": 7}
    said = judge.judge(wrong, Templates("", f"- {line}"))
    assert (line in said) == is_shown and len(said) == 1 + is_shown


def test_a_null_stays_null_and_a_replaced_value_is_left_to_the_chart() -> None:
    given = values(nodes="two", stages={"placement": "inline"})
    del given["ttlSecondsAfterFinished"]
    helm = Templates("", "")
    judge.judge(given, helm)
    assert helm.given[1]["ttlSecondsAfterFinished"] is None
    assert helm.given[1]["stages"]["clone"] is None
    assert "nodes" not in helm.given[1]


def test_unknown_keys_name_the_nearest_and_are_not_given_to_the_templates() -> None:
    helm = Templates("", "")
    [line] = judge.judge(values(gpuPerNode=8), helm)
    assert line == "gpuPerNode: not a key of this chart; the nearest is gpusPerNode [key-unknown]"
    assert "gpuPerNode" not in helm.given[1]


def test_each_relation_of_a_value_is_said_and_the_value_is_not_replaced() -> None:
    helm = Templates("- code.url: empty; set it [x]")
    restarts = {**DEFAULTS["restarts"], "max": 0}
    stages = {**DEFAULTS["stages"], "train": {"skip": True}}
    lines = judge.judge(values(rehearse=True, restarts=restarts, stages=stages), helm)
    found = [(line.partition(":")[0], line.rpartition(" ")[2]) for line in lines]
    trains, kills = ("rehearse", "[rehearse-train]"), ("rehearse", "[rehearse-restarts]")
    assert found == [trains, kills, ("code.url", "[x]")]
    assert len(helm.given) == 1


def test_a_relation_with_a_replaced_value_is_left_out() -> None:
    lines = judge.judge(values(rehearse=True, restarts={"max": "0"}), Templates("", ""))
    assert [line.partition(":")[0] for line in lines] == ["restarts.max"]
    [first, *_] = schema.mistakes(values(nodes=3, workspace={"emptyDir": {}}))
    assert first.line.startswith("workspace.emptyDir: 3 nodes cannot share it")


@pytest.mark.parametrize("text, is_accepted", [("team-a", True), ("team-a\n", False)])
def test_the_end_of_a_text_is_not_before_its_last_line_break(text: str, is_accepted: bool) -> None:
    assert (schema.mistakes(values(priorityClassName=text)) == []) == is_accepted


TWO_PEERS = {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}
SOME = {"key": "a", "operator": "Some"}
NO_LUN = {"name": "a", "fc": {"targetWWNs": ["a"]}}


@pytest.mark.parametrize(
    "part, path, id",
    [
        (
            {"networkPolicy": {"enabled": True, "egress": [{"to": [TWO_PEERS]}]}},
            "networkPolicy.egress[0].to[0]",
            "value-one",
        ),
        ({"extraEnv": {"A": {"valueFrom": {}}}}, "extraEnv.A.valueFrom", "value-one"),
        ({"extraVolumes": [{"name": "a"}]}, "extraVolumes[0]", "value-one"),
        ({"envFrom": [{"prefix": "A_"}]}, "envFrom[0]", "value-one"),
        ({"tolerations": [SOME]}, "tolerations[0].operator", "value-choice"),
        ({"extraVolumes": [NO_LUN]}, "extraVolumes[0].fc.lun", "value-missing"),
    ],
)
def test_a_mistake_in_a_pod_part_has_its_path_and_id(
    part: dict[str, Any], path: str, id: str
) -> None:
    [found] = schema.mistakes(values(**part))
    assert (found.path, found.line.rpartition(" ")[2]) == (path, f"[{id}]")


def test_every_keyword_of_the_schema_is_applied_by_the_judge() -> None:
    """A keyword that the library does not know would be ignored."""
    known = {*schema._judge().VALIDATORS, "then", "else", *ANNOTATIONS}
    assert _keywords(schema.schema()) - known == set()


ANNOTATIONS = {
    "$schema",
    "$comment",
    "title",
    "description",
    "definitions",
    "default",
    "errorMessage",
    "doNotSuggest",
    "deprecationMessage",
}


def _keywords(node: object, is_named: bool = False) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_keywords, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = set() if is_named else set(node)
    for key, below in node.items():
        if is_named or key not in ("enum", "const", "required"):
            names_below = not is_named and key in ("properties", "definitions", "dependencies")
            found |= _keywords(below, names_below)
    return found


def test_a_secret_is_not_shown_by_its_path() -> None:
    assert wording.shown("secrets.hf.existingSecret", "My Secret") == "the value"
    assert wording.shown("kueue.queue", "A") == '"A"'


@pytest.mark.parametrize(
    "word, known, near",
    [
        ("gpus", ["gpusPerNode", "nodes"], "gpusPerNode"),
        ("nodse", ["nodes", "image"], "nodes"),
        ("replicaCount", ["nodes", "image"], ""),
    ],
)
def test_short_words_have_a_nearest_too(word: str, known: list[str], near: str) -> None:
    assert names.closest(word, known) == near
