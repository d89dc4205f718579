"""Each values file alone is valid by the schema, as an editor applies it."""

import os
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from scripts import archive
from tests.chart.helm import BASE, CHART, ROOT, Document, Refused, merged, render, template, walk
from tests.chart.test_values import SCHEMA, TEXT, VALUES, nested

FILES = [
    *sorted(p for p in (ROOT / "values").rglob("*.yaml") if p.parent.name != "kueue"),
    *sorted((CHART / "ci").glob("*.yaml")),
]
"""values/kueue holds objects of Kubernetes."""
VALIDATOR = Draft7Validator(SCHEMA)


def _keys(document: Document) -> dict[str, object]:
    """Return the values of a file by the paths of their keys."""
    return {path: node for path, node in walk(document) if path and "[" not in path}


def errors(document: object) -> list[str]:
    return [f"{list(e.absolute_path)}: {e.message}" for e in VALIDATOR.iter_errors(document)]


@pytest.mark.parametrize("file", [*FILES, CHART / "values.yaml"], ids=lambda file: file.stem)
def test_a_values_file_alone_is_valid_by_the_schema(file: Path) -> None:
    assert errors(yaml.safe_load(file.read_text(encoding="utf-8"))) == []


def test_a_mistake_in_a_values_file_alone_is_found() -> None:
    assert errors({"nodes": "two"}) != []
    assert errors({"kueue": {"topology": {"mode": "some"}}}) != []
    assert errors({}) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_values_file_names_the_schema_for_editors(file: Path) -> None:
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found is not None, f"{file.name} begins with {first!r}"
    named = Path(os.path.normpath(file.parent / found[1]))
    assert named == CHART / "values.schema.json"


def test_the_defaults_are_those_of_values_yaml() -> None:
    written, found = _leaves(VALUES), _leaves(yaml.safe_load(archive.defaults(TEXT)))
    missing = written.keys() - found.keys()
    assert {"ttlSecondsAfterFinished", "restarts.nodeLostSeconds"} <= missing
    described = [line for line in TEXT.splitlines() if re.search(r"\bnull\b", line)]
    assert len(missing) <= len(described)
    assert {path: value for path, value in written.items() if path not in missing} == found


@pytest.mark.parametrize("path", _keys(VALUES))
def test_a_null_is_valid_for_each_key_with_a_default(path: str) -> None:
    assert errors(nested(path, None)) == []


def _leaves(document: Document) -> dict[str, object]:
    return {p: node for p, node in _keys(document).items() if not (node and isinstance(node, dict))}


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_null_means_the_default(helm: str) -> None:
    nulls: Document = {
        **dict.fromkeys(("nodes", "image", "extraEnv", "tolerations")),
        "cache": {"jit": None},
        "recipe": {"backend": None, "checkFlags": None},
        "kueue": {"queue": None, "topology": None},
        "stages": {"placement": None, "train": {"skip": None}},
        "monitoring": {"port": None},
        "restarts": {"max": None},
        "resources": {"requests": None, "limits": None},
        "test": {"resources": {"limits": None}},
    }
    assert render(nulls, helm=helm) == render(helm=helm)


def test_a_null_takes_back_what_an_earlier_file_says_of_the_claim() -> None:
    claim: Document = {"size": "1Ti", "volumeName": "v"}
    plain: Document = {"workspace": {"existingClaim": "", "pvc": claim}}
    nulls = {**claim, "storageClassName": None, "accessModes": None}
    made = {"workspace": {"existingClaim": "", "pvc": nulls}}
    assert render(BASE, made) == render(BASE, plain)


def test_a_required_key_that_is_null_is_refused_in_words() -> None:
    with pytest.raises(Refused, match=r"recipe\.model: .* \[model-source\]"):
        template(merged({"recipe": {"model": None}}))
