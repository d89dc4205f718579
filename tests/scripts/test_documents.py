"""The document that each verb prints with `--json` is that of `scripts/documents.yaml`."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from launchers.state.contents import is_name
from scripts import cli
from scripts.control import command as control
from scripts.doctor import command as doctor
from scripts.doctor.api import Api
from scripts.doctor.findings import Report, fail, ok
from scripts.helm import ROOT
from scripts.manifest import read_yaml
from scripts.plan import command as planning
from scripts.submit import command as submit
from tests.scripts.control.test_removal import plant as plant_removable
from tests.scripts.doctor.healthy import release
from tests.scripts.export import exports
from tests.scripts.observe.fixtures import CORE, JOBSETS, at
from tests.scripts.observe.planted import RUNNING, condition, jobset, pod, suspended
from tests.scripts.observe.server import Cluster
from tests.scripts.report.planted import plant

CATALOGUE = read_yaml(ROOT / "scripts" / "documents.yaml")
DOCUMENTS = CATALOGUE["documents"]
OWN = {"plan", "local", "rehearse", "demo", "demo-clean"}
"""Verbs without a document here: `plan/document.py` has its own; the others print no state."""
CLAIM = {"metadata": {"name": "training"}, "status": {"phase": "Bound"}}


def validate(verb: str, document: Any) -> None:
    Draft7Validator({"definitions": CATALOGUE["definitions"], "allOf": [DOCUMENTS[verb]]}).validate(
        document
    )


Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(api: Api, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run the command on the test's cluster; return its exit code and stdout."""

    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        return int(str(ended.value.code or 0)), capsys.readouterr().out

    return run


@pytest.fixture
def submitting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Report:
    """A plan and a doctor that accept, and a Helm that does nothing; the doctor's report."""
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\nexit 0\n")
    helm.chmod(0o755)
    found = [ok("queue", "queue gpu", "leads to ClusterQueue gpus")]
    report = Report(context="here", namespace="team", run="dpo", findings=found)
    monkeypatch.setattr(planning, "run", lambda request, console: console.print("(plan)") or 0)
    monkeypatch.setattr(doctor, "diagnose", lambda request: report)
    monkeypatch.setattr(submit, "find_helm", lambda: helm)
    return report


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
def test_what_is_seen(verb: str, said: Said, cluster: Cluster) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    words = [verb, "--json"] if verb == "list" else [verb, "dpo", "--json"]
    code, output = said(*words)
    assert code == 0
    document = json.loads(output)
    validate(verb, document)
    shorter = copy.deepcopy(document)
    shorter["schema"] = 2
    with pytest.raises(ValidationError):
        validate(verb, shorter)
    for field in document:
        with pytest.raises(ValidationError):
            validate(verb, {name: document[name] for name in document if name != field})


@pytest.mark.parametrize("verb", ["list", "status", "why"])
def test_the_start_of_a_run_that_waits(verb: str, said: Said, cluster: Cluster) -> None:
    cluster.put(JOBSETS, suspended())
    words = [verb, "--json"] if verb == "list" else [verb, "dpo", "--json", "--source", "api"]
    _, output = said(*words)
    document = json.loads(output)
    validate(verb, document)
    found = document["runs"][0]["start"] if verb == "list" else document["start"]
    assert found["earliest"] is None and found["sentence"].startswith("No start is predicted: ")
    found.pop("reasons")
    with pytest.raises(ValidationError):
        validate(verb, document)


def test_a_doctors_report(submitting: Report, said: Said) -> None:
    code, output = said("doctor", "-f", "values.yaml", "--json")
    assert code == 0
    validate("doctor", json.loads(output))


def test_an_export_is_signed_and_verified(tmp_path: Path, said: Said) -> None:
    folder = str(exports.make(tmp_path / "w"))
    private, public = exports.key(tmp_path, "k")
    code, output = said("sign", folder, "--key", str(private), "--json")
    assert code == 0
    validate("sign", json.loads(output))
    code, output = said("card", folder, "--json")
    assert code == 0
    validate("card", json.loads(output))
    (Path(folder) / "config.json").unlink()
    code, output = said("verify", folder, "--key", str(public), "--json")
    assert code == 1
    validate("verify", json.loads(output))


def test_logs_are_a_document_a_line(said: Said, cluster: Cluster) -> None:
    for rank in (0, 1):
        made = pod(rank, RUNNING)
        made["metadata"]["uid"] = f"u{rank}"
        cluster.put(f"{CORE}/pods", made)
        cluster.logs[made["metadata"]["name"]] = b'a "b" | c\n\xff\nloss 0.6\n'
    code, output = said("logs", "dpo", "--all", "--json", "--grep", "a|loss")
    assert code == 0
    documents = [json.loads(line) for line in output.splitlines()]
    for each in documents:
        validate("logs", each)
    assert sorted((each["rank"], each["line"]) for each in documents) == [
        (rank, line) for rank in (0, 1) for line in ('a "b" | c', "loss 0.6")
    ]


def test_stop_and_resume(said: Said, cluster: Cluster) -> None:
    refused, output = said("stop", "dpo", "--json")
    validate("an error", json.loads(output))
    assert refused == 1 and "use --yes" in output, "a question has no place in a document"
    assert cluster.changes == []
    for verb in ("stop", "resume"):
        code, output = said(verb, "dpo", "--json", "--yes")
        assert code == 0
        document = json.loads(output)
        validate(verb, document)
        assert [each["method"] for each in document["requests"]] == ["PATCH", "PATCH"]
        if verb == "stop":
            again = json.loads(said(verb, "dpo", "--json")[1])
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
    words: tuple[str, ...], code: int, why: str, said: Said
) -> None:
    ended, output = said(*words, "--json")
    document = json.loads(output)
    assert ended == code
    if why:
        validate("an error", document)
        assert why in document["why"]
    else:
        validate(words[0], document)


def test_rerun(
    said: Said, cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = jobset(condition("Failed", "True", "x"), terminalState="Failed")
    cluster.put(JOBSETS, at(failed, workspace))
    monkeypatch.setattr(control, "installed", lambda api, run: release())
    code, output = said("rerun", "dpo", "--json", "--yes")
    assert code == 0
    document = json.loads(output)
    validate("rerun", document)
    assert [each["method"] for each in document["requests"]] == ["DELETE", "POST"]


def test_submit(
    submitting: Report, said: Said, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    words = ("submit", "-f", "values.yaml", "--run", "dpo", "--json")
    code, output = said(*words, "--dry-run")
    dry = json.loads(output)
    validate("submit", dry)
    assert code == 0 and not dry["submitted"] and dry["command"] and not dry["states"]
    code, output = said(*words)
    done = json.loads(output)
    validate("submit", done)
    assert code == 0 and done["submitted"]
    assert [each["kind"] for each in done["states"]] == ["running"]
    missing = fail("secret", "Secret hf", "does not exist", "create it")
    monkeypatch.setattr(doctor, "diagnose", lambda request: replace(submitting, findings=[missing]))
    code, output = said(*words)
    refused = json.loads(output)
    validate("submit", refused)
    assert (code, refused["refused"], refused["submitted"]) == (1, "doctor", False)


def test_sweep(
    submitting: Report, said: Said, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SimpleNamespace(duration=None, gpu=None), SimpleNamespace(refusals=())
    monkeypatch.setattr(planning, "predict", lambda request: (None, *plan))
    words = ("sweep", "-f", "values.yaml", "--vary", "recipe.args.beta=0.1,0.2", "--json")
    code, output = said(*words, "--dry-run")
    document = json.loads(output)
    validate("sweep", document)
    assert code == 0 and [each["run"] for each in document["runs"]] == [
        "dpo-beta-0-1",
        "dpo-beta-0-2",
    ]
    missing = fail("secret", "Secret hf", "does not exist", "create it")
    monkeypatch.setattr(doctor, "diagnose", lambda request: replace(submitting, findings=[missing]))
    code, output = said(*words, "--yes")
    document = json.loads(output)
    validate("sweep", document)
    assert code == 1 and not any(each["accepted"] for each in document["runs"])
    assert document["runs"][0]["says"] == "Secret hf: does not exist; create it"
    assert said(*words)[0] == 1, "no question in a document"


def test_clean(said: Said, tmp_path: Path) -> None:
    root = tmp_path / "held"
    plant_removable(root, "dpo-41")
    words = ("clean", "--workspace", str(root), "--json")
    code, output = said(*words)
    assert code == 0
    validate("clean", json.loads(output))
    code, output = said(*words, "dpo-41", "--yes")
    assert code == 0
    validate("clean RUN", json.loads(output))


def test_report_and_bundle(said: Said, tmp_path: Path) -> None:
    root = tmp_path / "written"
    plant(root, "dpo-41")
    where = ("dpo-41", "--workspace", str(root), "--source", "mount")
    code, output = said("report", *where, "--json")
    assert code == 0
    document = json.loads(output)
    validate("report", document)
    assert output == said("report", *where, "-o", "json")[1]
    (tmp_path / "a.jsonl").write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    document = json.loads(said("report", *where, "--json", "--data", str(tmp_path / "a.jsonl"))[1])
    validate("report", document)
    validate("data", document["data"])
    file = tmp_path / "made.tar.gz"
    code, output = said("bundle", *where, "--no-cluster", "--json", "--file", str(file))
    assert code == 0
    packed = json.loads(output)
    validate("bundle", packed)
    assert packed["file"] == str(file) and packed["bytes"] == file.stat().st_size
