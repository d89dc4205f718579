"""values.yaml, its schema and the templates name the same keys."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from scripts.values.flags import tables
from tests.chart import judged
from tests.chart.helm import CHART, Document, Refused, merged, template, walk

SCHEMA: Document = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES: Document = yaml.safe_load(TEXT)
FILES = sorted(p for p in CHART.rglob("templates/**/*") if p.is_file())
TEMPLATES = {p: p.read_text(encoding="utf-8") for p in FILES}
FREE = (
    "extraVolumes",
    "extraVolumeMounts",
    "podSecurityContext",
    "securityContext",
    "extraEnv",
    "podSpec",
    "jobset.spec",
)
"""Kubernetes' own types: the schema helps with some of their fields, templates copy them."""
SUBCHARTS = {"launcher-archive", "library"}
HELMS = {"enabled", "global", *SUBCHARTS, *(f"{name}.global" for name in SUBCHARTS)}
"""Keys that Helm fills for subcharts; no user writes them, no template reads them."""


def keys(schema: Document, path: str = "") -> Iterator[tuple[str, Document]]:
    """Yield (path, schema) of every key that the chart owns."""
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        yield here, below
        if here not in FREE:
            yield from keys(below, here)


KEYS = dict(keys(SCHEMA))
LEVELS = ["", *sorted(p for p in KEYS if "properties" in KEYS[p] and p not in FREE)]


def test_the_schema_is_a_draft_07_schema_with_local_references_only() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    references = [n["$ref"] for _, n in walk(SCHEMA) if isinstance(n, dict) and "$ref" in n]
    assert all(reference.startswith("#/") for reference in references)


def test_every_key_is_described() -> None:
    assert [path for path, schema in KEYS.items() if not schema.get("description")] == []
    assert len(LEVELS) > 30


def test_every_key_of_the_schema_is_shown_in_values_yaml() -> None:
    given = {p for p, _ in walk(VALUES)}
    shown = {p for p in KEYS if p in given or re.search(rf"\b{p.rpartition('.')[2]}\b", TEXT)}
    optional = {"resources.requests", "resources.limits"}
    stage = {"stages.resources.requests", "stages.resources.limits"}
    assert set(KEYS) - shown - optional - stage - HELMS == set()


def test_every_default_has_one_sentence_above_it() -> None:
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"^( *)(\w+): (.*)$", line)
        if match and not line.lstrip().startswith("#"):
            assert lines[number - 1].lstrip().startswith("# -- "), f"no sentence above {line!r}"


def test_every_key_is_read_by_a_template_or_a_relation() -> None:
    text = "\n".join((*TEMPLATES.values(), json.dumps(SCHEMA["allOf"])))
    # Copied as a whole with the map that holds them.
    copied = {"workspace.nfs.server", "workspace.nfs.path", "workspace.emptyDir.sizeLimit"}
    unread = {
        path
        for path in set(KEYS) - copied - HELMS
        if not re.search(rf"""[."]{path.rpartition(".")[2]}\b""", text)
    }
    assert unread == set()


def test_every_key_that_a_template_reads_is_in_the_schema() -> None:
    text = "\n".join(TEMPLATES.values())
    read = set(re.findall(r"(?:\$?\.Values|\$v|\.root\.Values)\.((?:[a-z]\w*\.?)+)", text))
    assert len(read) > 30
    copied = {p for p in read if p.partition(".")[0] in FREE}
    assert {path.rstrip(".") for path in read - copied} - set(KEYS) == set()


@pytest.mark.parametrize("path", LEVELS)
def test_an_unknown_key_is_refused_at_every_level(path: str) -> None:
    with pytest.raises(Refused, match="typo"):
        template(merged(nested(f"{path}.typo".lstrip("."), 1)))


def test_every_number_for_a_text_is_to_be_quoted_all_in_one_round() -> None:
    texts = {p for p, s in KEYS.items() if set(s.get("type", ())) == {"string", "null"}}
    texts |= {p for p, v in walk(VALUES) if isinstance(v, str) and "type" in KEYS.get(p, ())}
    assert len(texts) > 20
    said = judged.lines(merged(*(nested(path, 12) for path in texts)))
    found = [line.partition(":")[0] for line in said if line.endswith(" [number-unquoted]")]
    assert set(found) == texts and len(found) == len(texts)


@pytest.mark.parametrize("depth", range(4))
def test_a_value_of_another_type_is_refused_at_every_key(depth: int) -> None:
    keys = {p: s["type"] for p, s in KEYS.items() if "type" in s and p not in HELMS}
    typed = {path: types for path, types in keys.items() if path.count(".") == depth}
    defaults = {path: value for path, value in walk(VALUES) if value is not None}
    expected = {path: defaults.get(path, "" if "string" in typed[path] else 1) for path in typed}
    given = {path: {"a": 1} if isinstance(expected[path], str) else "a" for path in typed}
    said = judged.lines(merged(*(nested(path, value) for path, value in given.items())))
    found = {line.partition(":")[0] for line in said if line.endswith(" [value-type]")}
    assert found == set(given) and found


def nested(path: str, value: object) -> Document:
    """Return values with one at a path such as ``kueue.queue``; those given without a path."""
    for key in reversed(path.split(".") if path else []):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def test_templates_stay_small() -> None:
    long = {p.name: len(t.splitlines()) for p, t in TEMPLATES.items() if len(t.splitlines()) > 150}
    assert long == {}


def test_the_values_are_validated_by_one_file_which_helm_renders_first() -> None:
    users = [p for p, text in TEMPLATES.items() if 'include "megatron-dpo.validate" ' in text]
    [user] = users
    assert user.relative_to(CHART / "templates").as_posix() == "validate/validate.yaml"
    # without the validation another template fails on this profile, in words of Go
    for helm in ("helm", "helm3"):
        for shown in ([], ["--show-only", "templates/configmap.yaml"]):
            with pytest.raises(Refused, match=r"\[network-profile\]"):
                template(merged({"network": {"profile": "none"}}), *shown, helm=helm)


def test_no_template_names_a_flag_of_the_trainer() -> None:
    backends: list[Document] = [b for t in tables().values() for b in t["backends"].values()]
    names = {name for b in backends for name in b["flags"]["common"] if "_" in name}
    assert names
    words = {w for p, t in TEMPLATES.items() for w in re.findall(r"\w+", Path(p).name + t)}
    assert names & words == set()
