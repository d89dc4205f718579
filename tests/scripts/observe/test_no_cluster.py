"""Runs of a laptop, a bare host or Slurm: their files are read, and no cluster is needed."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launchers.config.workspace import Workspace
from tests.scripts.calling import Call, Ended
from tests.scripts.kubeconfig import select, write
from tests.scripts.report.planted import plant, progress
from tests.scripts.test_documents import validate

NO_KUBECONFIG = "there is no kubeconfig; set KUBECONFIG, or `kubectl config use-context`"
CONFIGS: dict[str, Callable[[Path], Path]] = {
    "none": lambda folder: folder / "none",
    "no-context": lambda folder: edited(folder, "current-context: here", "current-context: gone"),
    "no-yaml": lambda folder: edited(folder, "clusters:", "clusters: ["),
    "no-server": lambda folder: write(folder, "http://127.0.0.1:9"),
}


def edited(folder: Path, old: str, new: str) -> Path:
    file = write(folder, "http://127.0.0.1:9")
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: Call) -> Call:
    def called(config: str, *words: str) -> Ended:
        select(CONFIGS[config](tmp_path), monkeypatch)
        return call(*words)

    return called


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    found = plant(tmp_path / "mnt", "dpo-42")
    (found.attempts / "2" / "node-0.log").write_text("loss 0.3\n")
    return found


def note(work: Workspace, **fields: Any) -> None:
    work.progress.write_text(json.dumps({**progress(work.run), **fields}))


@pytest.mark.parametrize("source", ["auto", "mount"])
@pytest.mark.parametrize("config", CONFIGS)
def test_a_mounted_run_is_shown_without_a_cluster_and_says_why_none_was_asked(
    config: str, source: str, run: Call, work: Workspace
) -> None:
    place = ("--workspace", str(work.root), "--source", source)
    status = run(config, "status", "dpo-42", "--json", *place)
    document = status.document
    validate("status", document)
    assert (status.code, document["state"], document["step"]) == (0, "done", 20)
    assert document["workspace"] == f"mounted at {work.root}"
    why = run(config, "why", "dpo-42", "--json", *place)
    validate("why", why.document)
    (reason,) = why.document["reasons"]
    assert (why.code, reason["id"]) == (0, "files-succeeded")
    said = "does not answer: " if config == "no-server" else "No cluster was asked: "
    assert said in reason["sentence"] and "no answer" not in reason["sentence"]
    logs = run(config, "logs", "dpo-42", *place)
    assert logs == (0, "rank 0 | loss 0.3\n", "from the files of attempt 2\n")


def test_a_person_reads_where_the_numbers_are_from(run: Call, work: Workspace) -> None:
    code, out, _ = run("none", "status", "dpo-42", "--workspace", str(work.root))
    text = " ".join(out.split())
    assert code == 0 and "dpo-42 done without a cluster" in text and "restarts" not in text
    assert f"No cluster was asked: {NO_KUBECONFIG}." in text
    code, out, _ = run("none", "list", "--workspace", str(work.root))
    assert code == 0 and "dpo-42" in out and "files-succeeded" in out
    assert f"note: no cluster was asked: {NO_KUBECONFIG}" in out


def test_the_state_of_files_is_that_of_their_heartbeat(run: Call, work: Workspace) -> None:
    def state() -> tuple[int, str]:
        why = run("none", "why", "dpo-42", "--json", "--workspace", str(work.root))
        return why.code, why.document["reasons"][0]["id"]

    note(work, state="running")
    assert state() == (4, "files-silent"), "the file is old, and there is no lock"
    note(work, state="running", updated=time.time() - 300)
    assert state() == (0, "files-running"), "an evaluation may take this long"
    work.lock.write_text("{}")
    assert state() == (0, "files-running")
    for age in (-3600.0, 50.0, 70.0):
        os.utime(work.lock, (time.time() - age,) * 2)
        note(work, state="running", updated=time.time() - 300)
        assert state() == ((0, "files-running") if age == 50.0 else (4, "files-silent"))
    taken = work.home / "run.lock.token"  # by a later launcher
    taken.write_text("{}")
    assert state() == (0, "files-running")
    note(work, state="failed", code=65, why="no pairs")
    assert state() == (1, "files-failed")


def test_a_watch_follows_the_files_until_the_run_has_ended(
    run: Call, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(work, state="running", updated=time.time())
    monkeypatch.setattr("time.sleep", lambda seconds: note(work, state="failed", code=65))
    code, out, _ = run("none", "status", "dpo-42", "--watch", "--workspace", str(work.root))
    assert code == 1 and out.index("the run is in stage train") < out.index("the run failed")


def test_the_list_holds_each_run_of_the_mount(run: Call, work: Workspace) -> None:
    plant(work.root, "dpo-43")
    note(Workspace(root=work.root, run="dpo-43"), state="failed")
    (work.root / "runs" / ".dpo-1.removing").mkdir()
    for config in CONFIGS:
        found = run(config, "list", "--json", "--workspace", str(work.root))
        validate("list", found.document)
        states = [(each["run"], each["state"], each["step"]) for each in found.document["runs"]]
        assert (found.code, states) == (0, [("dpo-42", "done", 20), ("dpo-43", "failed", 20)])
        assert len(found.document["notes"]) == 1


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("verb", ["status", "why", "list"])
def test_without_files_the_state_is_unknown_and_a_document(
    verb: str, config: str, run: Call
) -> None:
    ended = run(config, verb, *() if verb == "list" else ("dpo-42",), "--json")
    document = ended.document
    validate(verb, document)
    assert (ended.code, ended.err) == (4, "")
    if verb == "list":
        assert document["runs"] == [] and document["notes"]
    else:
        reason = document.get("reason") or document["reasons"][0]
        assert reason["id"] == ("cluster-unreachable" if config == "no-server" else "no-cluster")
        assert document["workspace"] == "not read"


@pytest.mark.parametrize("verb", ["logs", "stop", "resume", "rerun", "clean", "report", "bundle"])
def test_a_verb_that_needs_the_cluster_says_that_it_did_not_answer(verb: str, run: Call) -> None:
    for config in CONFIGS:
        ended = run(config, verb, "dpo-42", "--json")
        validate("an error", ended.document)
        assert ended.code == 4, (config, ended.err)
        assert "there is no run dpo-42" not in ended.err.lower()
        why = ended.document["why"]
        assert " ".join(ended.err.split()).removeprefix("error: ").endswith(why)
        if config == "no-server":
            assert "does not answer: " in why and "no answer" not in why


def test_a_run_that_the_mount_does_not_hold_is_named_with_those_that_there_are(
    run: Call, work: Workspace
) -> None:
    ended = run("none", "why", "dpo-24", "--json", "--workspace", str(work.root))
    (said,) = ended.document["notes"]
    assert ended.code == 4
    assert said.endswith("has no runs/dpo-24; is it the workspace of this run?; its runs: dpo-42")
