"""A credential in plain values is refused, and nothing that Helm prints holds it."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.yaml_file import read_yaml
from scripts import credentials
from scripts.redact import Redactor
from tests.chart import judged
from tests.chart.credentials import CANARY, ENCLOSED, FORMS, PREFIXED
from tests.chart.helm import CHART, Document, call, merged, rejected, walk
from tests.chart.test_values import SCHEMA

REFERENCE: Document = {"valueFrom": {"secretKeyRef": {"name": "a", "key": CANARY}}}
VOLUME: Document = {"name": "a", "csi": {"driver": "a.b", "volumeAttributes": {"token": CANARY}}}
CONTAINER: Document = {"name": "a", "image": "b:1"}
TABLE: Mapping[str, Any] = read_yaml(credentials.FILE)
NAMED: Mapping[str, list[Document]] = read_yaml(Path(__file__).with_name("named_credentials.yaml"))
PLACES: tuple[Document, ...] = (
    {"extraEnv": {"A": CANARY}},
    {"extraEnv": {"A": f"x={CANARY}"}},
    {"extraEnv": {CANARY: "a"}},
    {"extraEnv": {"A": REFERENCE}},
    {"network": {"env": {"NCCL_A": CANARY}}},
    {"network": {"annotations": {"example.com/a": CANARY}}},
    {"network": {"attachment": CANARY}},
    {"network": {"profile": CANARY}},
    {"network": {"resourceName": CANARY}},
    {"network": {"envFile": CANARY}},
    {"network": {"libraryPath": [CANARY]}},
    {"network": {"transport": CANARY}},
    {"network": {"initContainers": [{**CONTAINER, "env": [{"name": "A", "value": CANARY}]}]}},
    {"network": {"initContainers": [{**CONTAINER, "command": ["login", CANARY]}]}},
    {"network": {"initContainers": [{**CONTAINER, "args": [f"--token={CANARY}"]}]}},
    {"network": {"initContainers": [{**CONTAINER, "image": CANARY}]}},
    {"podAnnotations": {"a": CANARY}},
    {"podAnnotations": {CANARY: "a"}},
    {"podLabels": {"a": CANARY}},
    {"nodeSelector": {"a": CANARY}},
    {"tolerations": [{"key": "a", "value": CANARY}]},
    {"recipe": {"args": {"template": CANARY}}},
    {"recipe": {"args": {"report_to": ["tensorboard", CANARY]}}},
    {"recipe": {"args": {"megatron_extra_kwargs": {"a": {"b": CANARY}}}}},
    {"recipe": {"args": {CANARY: 1}}},
    {"recipe": {"model": f"hf://a/b@{CANARY}"}},
    {"recipe": {"dataset": [CANARY]}},
    {"code": {"url": f"https://{CANARY}@example.com/a", "ref": "v1"}},
    {"code": {"url": "https://example.com/a", "ref": CANARY}},
    {"code": {"url": "https://example.com/a", "ref": "v1", "existingSecret": CANARY}},
    {"secrets": {"hf": {"existingSecret": CANARY}}},
    {"secrets": {"modelscope": {"key": CANARY}}},
    {"image": {"pullSecrets": [CANARY]}},
    {"image": {"tag": CANARY}},
    {"image": {"repository": CANARY}},
    {"workspace": {"existingClaim": CANARY}},
    {"workspace": {"mountPath": f"/{CANARY}"}},
    {"workspace": {"existingClaim": None, "nfs": {"server": CANARY, "path": "/a"}}},
    {"kueue": {"queue": CANARY}},
    {"serviceAccountName": CANARY},
    {"priorityClassName": CANARY},
    {"extraVolumes": [VOLUME]},
    {"extraVolumes": [{"name": CANARY, "emptyDir": {}}]},
    {"extraVolumes": [{"name": "a", "nfs": {"server": "a", "path": CANARY}}]},
    {"extraVolumeMounts": [{"name": "shm", "mountPath": "/a", "subPath": CANARY}]},
    {"podSecurityContext": {"seLinuxOptions": {"level": CANARY}}},
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: re.sub("hf_\\w+", "CANARY", str(place)))
def test_a_credential_is_refused_and_never_printed(place: Document) -> None:
    said = "\n".join((rejected(merged(place)), *judged.lines(merged(place))))
    assert not re.search("canary", said, re.IGNORECASE)
    assert re.search(r"\[(secret-plain|secret-name|code-url-secret)\]$", said, re.M)


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_a_credential_is_refused(text: str) -> None:
    said = rejected(merged({"extraEnv": {"A": text}}))
    assert re.search(r"extraEnv\.A: .* \[secret-plain\]", said)
    assert "canary" not in said.lower()


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_helms_own_words_hold_no_credential_and_no_name_of_a_secret(helm: str) -> None:
    unfit = "Pass Word"
    refused_by_the_schema: tuple[Document, ...] = (
        {"nodes": "two", "kueue": {"queue": CANARY}, "recipe": {"args": {"lr": CANARY}}},
        {"code": {"existingSecret": unfit}, "image": {"pullSecrets": [unfit]}},
        {"secrets": {"hf": {"existingSecret": unfit, "key": unfit}}},
        {"monitoring": {"webhook": {"existingSecret": unfit}}},
    )
    said = rejected(merged(*refused_by_the_schema), helm=helm)
    assert "specifications of the schema" in said
    assert "canary" not in said.lower() and unfit not in said
    places = ("nodes", "code/existingSecret", "secrets/hf/key", "monitoring/webhook/existingSecret")
    assert [place for place in places if f"at '/{place}'" not in said] == []


def test_mistakes_in_addition_to_a_credential_do_not_print_it() -> None:
    values = merged({"nodes": "two", "serviceAccountName": CANARY})
    said = judged.lines(values)
    assert [line.rpartition(" ")[2] for line in said] == ["[secret-plain]", "[value-type]"]
    assert "canary" not in "\n".join((rejected(values), *said)).lower()


def test_debug_output_does_not_print_it(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"extraEnv: {{A: {CANARY}}}\n", encoding="utf-8")
    done = call("template", "run", str(CHART), "-f", str(file), "--debug")
    assert done.returncode != 0
    assert "canary" not in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize(
    "id, place", [(id, place) for id, places in NAMED.items() for place in places], ids=str
)
def test_a_literal_under_the_name_of_a_credential_is_refused(id: str, place: Document) -> None:
    said = rejected(merged(place))
    assert f"[{id}]" in said and "canary" not in said


def test_each_form_of_the_table_has_an_example() -> None:
    assert [each["vendor"] for each in TABLE["prefixed"]] == list(PREFIXED)
    assert [each["what"] for each in TABLE["enclosed"]] == list(ENCLOSED)


@pytest.mark.parametrize("text", FORMS)
def test_reports_leave_out_every_form(text: str) -> None:
    assert "canary" not in Redactor().text(f"a\nb {text} c").lower()


def test_the_schema_and_the_reports_know_the_same_credentials() -> None:
    pods = SCHEMA["definitions"]["kubernetes"]["definitions"]
    assert pods["credential"] == {"pattern": credentials.form()}, "run `make pod-schema`"
    nodes = [node for _, node in walk(SCHEMA) if isinstance(node, dict)]
    printed = [node for node in nodes if "pattern" in node and "errorMessage" in node]
    guarded = [node["else"] for node in nodes if node.get("if") == {"$ref": credentials.POINTER}]
    assert len(printed) > 60
    assert [form for form in printed if form not in guarded] == []


def test_the_template_and_the_reports_know_the_same_credentials(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    printed = '{{ (include "megatron-dpo.credentials" . | fromJson).form | fail }}'
    (chart / "templates" / "validate" / "validate.yaml").write_text(printed, encoding="utf-8")
    assert credentials.form() in rejected(merged(), chart=chart)
