"""The document that each verb prints with `--json` is that of `scripts/documents.yaml`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from launchers.state.contents import is_name
from launchers.yaml_file import read_yaml
from scripts import cli
from scripts.control import command as control
from scripts.doctor import command as doctor
from scripts.doctor.findings import Finding, Report, fail, ok
from scripts.helm import ROOT
from scripts.plan import command as planning
from scripts.submit import command as submit
from tests.scripts.calling import Call, Ended
from tests.scripts.control.test_removal import plant as plant_removable
from tests.scripts.doctor.healthy import release
from tests.scripts.export import exports
from tests.scripts.observe.fixtures import CORE, JOBSETS, at
from tests.scripts.observe.planted import condition, jobset, suspended
from tests.scripts.observe.server import Cluster
from tests.scripts.report.planted import plant

CATALOGUE = read_yaml(ROOT / "scripts" / "documents.yaml")
DOCUMENTS = CATALOGUE["documents"]
OWN = {"plan", "local", "rehearse", "demo", "demo-clean"}
"""Verbs without a document here: `plan/document.py` has its own; the others print no state."""
CLAIM = {"metadata": {"name": "training"}, "status": {"phase": "Bound"}}
MISSING = fail("secret", "Secret hf", "does not exist", "create it")
pytestmark = pytest.mark.usefixtures("api")


def validate(verb: str, document: Any) -> None:
    schema = {"definitions": CATALOGUE["definitions"], "allOf": [DOCUMENTS[verb]]}
    Draft7Validator(schema).validate(document)


def read(ended: Ended, verb: str, code: int = 0) -> Any:
    assert ended.code == code, ended
    validate(verb, ended.document)
    return ended.document


@pytest.fixture
def submitting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Finding]:
    """A plan and a doctor that accept, and a Helm that does nothing; the doctor's findings."""
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\nexit 0\n")
    helm.chmod(0o755)
    found = [ok("queue", "queue gpu", "leads to ClusterQueue gpus")]
    report = Report(context="here", namespace="team", run="dpo", findings=found)
    monkeypatch.setattr(planning, "run", lambda request, console: console.print("(plan)") or 0)
    monkeypatch.setattr(doctor, "diagnose", lambda request: report)
    monkeypatch.setattr(submit, "find_helm", lambda: helm)
    return found


def test_each_verb_has_a_document() -> None:
    """A new verb prints one, or says here why not."""
    command = typer.main.get_command(cli.app)
    verbs = set(command.commands)  # type: ignore[attr-defined]
    assert verbs - OWN == {each for each in DOCUMENTS if is_name(each)}
    for each in verbs - OWN:
        options = {
            name
            for parameter in command.commands[each].params  # type: ignore[attr-defined]
            for name in parameter.opts
        }
        assert "--json" in options, each
    Draft7Validator.check_schema(CATALOGUE)


@pytest.mark.parametrize("verb", ["list", "status", "why"])
def test_what_is_seen(verb: str, call: Call, cluster: Cluster) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    document = read(call(verb, *() if verb == "list" else ("dpo",), "--json"), verb)
    with pytest.raises(ValidationError):
        validate(verb, {**document, "schema": 2})
    for field in document:
        with pytest.raises(ValidationError):
            validate(verb, {name: document[name] for name in document if name != field})


@pytest.mark.parametrize("verb", ["list", "status", "why"])
def test_the_start_of_a_run_that_waits(verb: str, call: Call, cluster: Cluster) -> None:
    cluster.put(JOBSETS, suspended())
    words = () if verb == "list" else ("dpo", "--source", "api")
    document = call(verb, "--json", *words).document
    validate(verb, document)
    found = document["runs"][0]["start"] if verb == "list" else document["start"]
    assert found["earliest"] is None and found["sentence"].startswith("No start is predicted: ")
    found.pop("reasons")
    with pytest.raises(ValidationError):
        validate(verb, document)


@pytest.mark.usefixtures("submitting")
def test_a_doctors_report(call: Call) -> None:
    read(call("doctor", "-f", "values.yaml", "--json"), "doctor")


def test_an_export_is_signed_and_verified(tmp_path: Path, call: Call) -> None:
    folder = str(exports.make(tmp_path / "w"))
    private, public = exports.key(tmp_path, "k")
    read(call("sign", folder, "--key", str(private), "--json"), "sign")
    read(call("card", folder, "--json"), "card")
    (Path(folder) / "config.json").unlink()
    read(call("verify", folder, "--key", str(public), "--json"), "verify", 1)


def test_logs_are_a_document_a_line(call: Call, cluster: Cluster) -> None:
    for rank in (0, 1):
        cluster.log(rank, b'a "b" | c\n\xff\nloss 0.6\n')
    ended = call("logs", "dpo", "--all", "--json", "--grep", "a|loss")
    assert ended.code == 0
    documents = [json.loads(line) for line in ended.out.splitlines()]
    for each in documents:
        validate("logs", each)
    assert sorted((each["rank"], each["line"]) for each in documents) == [
        (rank, line) for rank in (0, 1) for line in ('a "b" | c', "loss 0.6")
    ]


def test_stop_and_resume(call: Call, cluster: Cluster) -> None:
    refused = read(call("stop", "dpo", "--json"), "an error", 1)
    assert "use --yes" in refused["why"], "a question has no place in a document"
    assert cluster.changes == []
    for verb in ("stop", "resume"):
        document = read(call(verb, "dpo", "--json", "--yes"), verb)
        assert [each["method"] for each in document["requests"]] == ["PATCH", "PATCH"]
        if verb == "stop":
            again = call(verb, "dpo", "--json").document
            validate(verb, again)
            assert again["requests"] == [], "it is stopped: there is nothing to confirm"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("logs", "nope"), 1, "There is no run nope"),
        (("stop", "nope", "--yes"), 1, "There is no run nope"),
        (("rerun", "nope", "--yes"), 1, "There is no run nope"),
        (("report", "nope", "--workspace", "/"), 1, "no run 'nope'"),
        (("bundle", "nope", "--workspace", "/"), 1, "no run 'nope'"),
        (("clean", "nope", "--workspace", "/dev/null", "--yes"), 1, "/dev/null is not a folder"),
        (("list", "--workspace", "/dev/null"), 1, "/dev/null is not a folder"),
        (("status", "dpo", "--workspace", "/dev/null"), 1, "/dev/null is not a folder"),
        (("submit",), 1, "no values given"),
        (("doctor", "-f", "/none.yaml"), 1, "/none.yaml is not a file"),
        (("status", "dpo", "--source", "mount"), 2, "no folder given"),
        (("status", "dpo", "--source", "x"), 2, "stderr has the message"),
        (("status",), 2, "stderr has the message"),
        (("status", "dpo", "--context", "gone", "--source", "pod"), 4, ""),
        (("stop", "dpo", "--context", "gone", "--yes"), 4, "no context gone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_is_a_document_too(
    words: tuple[str, ...], code: int, why: str, call: Call
) -> None:
    document = read(call(*words, "--json"), "an error" if why else words[0], code)
    assert why in document.get("why", "")


def test_rerun(
    call: Call, cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = jobset(condition("Failed", "True", "x"), terminalState="Failed")
    cluster.put(JOBSETS, at(failed, workspace))
    monkeypatch.setattr(control, "installed", lambda api, run: release())
    document = read(call("rerun", "dpo", "--json", "--yes"), "rerun")
    assert [each["method"] for each in document["requests"]] == ["DELETE", "POST"]


def test_submit(submitting: list[Finding], call: Call, cluster: Cluster) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    words = ("submit", "-f", "values.yaml", "--run", "dpo", "--json")
    dry = read(call(*words, "--dry-run"), "submit")
    assert not dry["submitted"] and dry["command"] and not dry["states"]
    done = read(call(*words), "submit")
    assert done["submitted"] and [each["kind"] for each in done["states"]] == ["running"]
    submitting.append(MISSING)
    refused = read(call(*words), "submit", 1)
    assert (refused["refused"], refused["submitted"]) == ("doctor", False)


def test_sweep(submitting: list[Finding], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SimpleNamespace(duration=None, gpu=None), SimpleNamespace(refusals=())
    monkeypatch.setattr(planning, "predict", lambda request: (None, *plan))
    words = ("sweep", "-f", "values.yaml", "--vary", "recipe.args.beta=0.1,0.2", "--json")
    document = read(call(*words, "--dry-run"), "sweep")
    assert [each["run"] for each in document["runs"]] == ["dpo-beta-0-1", "dpo-beta-0-2"]
    submitting.append(MISSING)
    document = read(call(*words, "--yes"), "sweep", 1)
    assert not any(each["accepted"] for each in document["runs"])
    assert document["runs"][0]["says"] == "Secret hf: does not exist; create it"
    assert call(*words).code == 1, "no question in a document"


def test_clean(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "held"
    plant_removable(root, "dpo-41")
    words = ("clean", "--workspace", str(root), "--json")
    read(call(*words), "clean")
    read(call(*words, "dpo-41", "--yes"), "clean RUN")


def test_report_and_bundle(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "written"
    plant(root, "dpo-41")
    where = ("dpo-41", "--workspace", str(root), "--source", "mount")
    ended = call("report", *where, "--json")
    read(ended, "report")
    assert ended.out == call("report", *where, "-o", "json").out
    file = tmp_path / "made.tar.gz"
    words = ("bundle", *where, "--no-cluster", "--json", "--file", str(file))
    packed = read(call(*words), "bundle")
    assert packed["file"] == str(file) and packed["bytes"] == file.stat().st_size
