"""`megatron-dpo plan` shows every mistake of a values file at once, in words, without a secret."""

import json
import re

from tests.chart import judged
from tests.chart.helm import CHART, Document, merged, rejected, walk
from tests.refusals import printed

TOKEN = "hf_" + "a1B2" * 8
ONE_OF_EACH: dict[str, tuple[Document, str]] = {
    "an unknown key": ({"gpuPerNode": 8}, "gpuPerNode key-unknown"),
    "an unknown field of a pod": (
        {"extraVolumes": [{"name": "a", "nfs": {"server": "a", "path": "/a", "ro": True}}]},
        "extraVolumes[0].nfs.ro key-unknown",
    ),
    "a wrong type": (
        {"terminationGracePeriodSeconds": "soon"},
        "terminationGracePeriodSeconds value-type",
    ),
    "a number for a text": ({"code": {"ref": 1234567}}, "code.ref number-unquoted"),
    "a boolean for a text": ({"priorityClassName": True}, "priorityClassName boolean-unquoted"),
    "a wrong choice": ({"image": {"pullPolicy": "always"}}, "image.pullPolicy value-choice"),
    "a number out of range": ({"restarts": {"max": -1}}, "restarts.max value-range"),
    "a quantity": ({"sharedMemory": {"sizeLimit": "64gb"}}, "sharedMemory.sizeLimit value-form"),
    "a name": ({"kueue": {"queue": "Team_A"}}, "kueue.queue value-form"),
    "a missing field": (
        {"tolerations": [{"operator": "Exists", "value": "a"}], "resourceClaims": [{}]},
        "resourceClaims[0].name value-missing",
    ),
    "a credential": ({"extraEnv": {"HUB": TOKEN}}, "extraEnv.HUB secret-plain"),
    "a password in a URL": (
        {"code": {"url": f"https://me:{TOKEN}@h/a.git"}},
        "code.url code-url-secret",
    ),
    "a forbidden character": ({"podAnnotations": {"a": "x\x82"}}, "podAnnotations.a character"),
    "an invisible blank": ({"schedulerName": "a\u200bb"}, "schedulerName character-blank"),
    "a relation between two keys": (
        {"stages": {"nodeSelector": {"pool": "cpu"}}},
        "stages.nodeSelector stages-inline",
    ),
    "a relation beside a wrong value": (
        {"tolerations": [{"operator": "Exists", "value": "a"}]},
        "tolerations[0].value toleration-value",
    ),
    "a flag's choice": (
        {"recipe": {"args": {"tuner_type": "lorra"}}},
        "recipe.args.tuner_type value-choice",
    ),
    "a flag's name": ({"recipe": {"args": {"learning_rat": 1}}}, "recipe.args.learning_rat"),
    "a flag's range": ({"recipe": {"args": {"lr": 7}}}, "recipe.args.lr lr"),
    "sizes that do not fit the GPUs": (
        {"recipe": {"args": {"tensor_model_parallel_size": 5}}},
        "recipe.args world-model-parallel",
    ),
}
"""A kind of mistake to a layer of values, and the path and id of its line."""


def lines(*layers: Document) -> tuple[str, set[str]]:
    values = merged(*layers)
    said = judged.lines(values)
    text = "\n".join((rejected(values), "said by the judge:", *(f"- {line}" for line in said)))
    return text, {f"{each.path} {each.id}" for each in printed.by_plan(said)}


def test_one_mistake_of_each_kind_in_one_round_without_a_secret() -> None:
    text, found = lines(*(layer for layer, _ in ONE_OF_EACH.values()))
    missing = {
        kind: line
        for kind, (_, line) in ONE_OF_EACH.items()
        if not any(one == line or one.startswith(f"{line} ") for one in found)
    }
    assert missing == {}, text
    assert TOKEN not in text
    own = text.partition("said by the judge:")[2]
    shown = [line for line in own.splitlines() if line.startswith("- ")]
    assert len(shown) == len(found)
    assert all(re.fullmatch(r"- \S+: .+; .+ \[[a-z0-9-]+\]", line) for line in shown), text


def test_a_wrong_value_causes_no_follow_up_mistakes() -> None:
    _, found = lines({"nodes": "two", "recipe": {"args": {"global_batch_size": 7}}})
    assert found == {"nodes value-type"}
    _, found = lines({"workspace": {"existingClaim": 7}})
    assert found == {"workspace.existingClaim number-unquoted"}


def test_a_credential_under_a_wrong_type_is_not_shown() -> None:
    layers: tuple[Document, ...] = (
        {"kueue": {"queue": TOKEN}},
        {"nodes": TOKEN},
        {"workspace": TOKEN},
        {"extraVolumes": TOKEN},
        {"extraEnv": {TOKEN: 1}},
        {"secrets": {"hf": {"existingSecret": "Not A Secret"}}},
    )
    text, found = lines(*layers)
    assert TOKEN not in text and "Not A Secret" not in text
    assert len(found) == len(layers), text


def test_every_form_of_the_schema_has_words() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    nodes = [(path, node) for path, node in walk(schema) if isinstance(node, dict)]
    judging = [(path, node) for path, node in nodes if "pattern" in node]
    assert len(judging) > 60
    silent = [path for path, node in judging if "errorMessage" not in node]
    # of `not`, `if` and `contains`, which print nothing
    printed_alone = [path for path in silent if not re.search(r"\.(not|if|contains)\b", path)]
    assert printed_alone == ["definitions.kubernetes.definitions.credential"]
