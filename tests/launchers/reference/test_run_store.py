"""A run finds its store: first start, restart, resume, and too late."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.logs import LOG
from launchers.reference import run_store, store
from launchers.reference.fingerprint import store_name
from launchers.reference.run_store import Opened, open_store, record, recorded, stores
from launchers.reference.store import Pairs
from launchers.upstream.record import ALLOW_VARIABLE
from tests.launchers.reference.references import MACHINE, arguments

ONE: Pairs = {b"1" * 16: (-1.0, -2.0)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "w" / "runs" / "one"


@pytest.fixture
def args(tmp_path: Path) -> Any:
    return arguments(tmp_path)


def test_a_fresh_run_begins_a_store_and_continues_with_parts(home: Path, args: Any) -> None:
    first = open_store(home, args, 0, MACHINE)
    assert (first.complete, first.pairs, first.folder.parent) == (False, {}, stores(home))
    store.add_part(first.folder, ONE)
    assert open_store(home, args, 0, MACHINE).pairs == ONE


def finish(home: Path, args: Any) -> Opened:
    opened = open_store(home, args, 0, MACHINE)
    opened.pairs.update(ONE)
    done = opened.after(2.0, 1000, 4)
    store.complete(done.folder, done.pairs, done.cost)
    record(home, done)
    return done


def test_the_run_notes_what_its_pass_took(home: Path, args: Any) -> None:
    finish(home, args)
    note = recorded(home)
    assert (note["from"], note["seconds"], note["pairs"], note["tokens"]) == ("pass", 2.0, 1, 1000)
    assert note["tokens_per_second_per_gpu"] == 125.0


def test_another_run_finds_the_store(home: Path, args: Any) -> None:
    finish(home, args)
    other = home.with_name("two")
    opened = open_store(other, args, 0, MACHINE)
    record(other, opened)
    assert (opened.complete, opened.source, opened.pairs) == (True, "store", ONE)
    assert (recorded(other)["from"], recorded(other)["seconds"]) == ("store", 2.0)


def test_a_resumed_run_reads_the_store_and_keeps_its_note(
    tmp_path: Path, home: Path, args: Any
) -> None:
    finish(home, args)
    opened = open_store(home, arguments(tmp_path, mcore_model="/w/checkpoint-3"), 3, MACHINE)
    record(home, opened)
    assert opened.pairs == ONE
    assert recorded(home)["from"] == "pass"


def test_a_resumed_run_without_a_whole_store_gets_a_remedy(home: Path, args: Any) -> None:
    begun = open_store(home, args, 0, MACHINE)
    store.add_part(begun.folder, ONE)
    with pytest.raises(LaunchError) as reported:
        open_store(home, args, 3, MACHINE)
    for word in ("has done 3 steps", str(begun.folder), "is incomplete", "online", "checkpoints"):
        assert word in str(reported.value)
    assert reported.value.code == Exit.CONFIG


def test_a_resumed_run_with_other_facts_names_them(tmp_path: Path, home: Path, args: Any) -> None:
    finish(home, args)
    finish(home.with_name("two"), arguments(tmp_path, max_length=4096))
    with pytest.raises(LaunchError, match="max_length was 8192 and is 4096; revert"):
        open_store(home, arguments(tmp_path, max_length=4096), 3, MACHINE)


def test_other_code_begins_another_store_and_a_resumed_run_keeps_its_own(
    home: Path, args: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done = finish(home, args)
    monkeypatch.setenv("DPO_LAUNCHER_DIGEST", "of the next release")
    assert open_store(home.with_name("two"), args, 0, MACHINE).folder != done.folder
    kept = open_store(home, args, 3, MACHINE)
    assert (kept.folder, kept.pairs) == (done.folder, ONE)
    assert "launcher was" in caplog.text


def test_a_torn_note_counts_as_none(home: Path) -> None:
    home.mkdir(parents=True)
    (home / run_store.RECORD).write_text('{"from": ')
    assert recorded(home) == {}


OLD = {"torch", "GPU", "tensor_model_parallel_size"}
"""Facts that an older launcher did not record."""


def test_a_run_that_began_with_fewer_facts_keeps_its_store_and_names_them(
    tmp_path: Path,
    home: Path,
    args: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOG, "propagate", True)
    done = finish(home, args)
    facts = {name: fact for name, fact in done.facts.items() if name not in OLD}
    folder = done.folder.rename(done.folder.with_name(store_name(facts)))
    record(home, replace(done, facts=facts, folder=folder))
    opened = open_store(home, args, 3, MACHINE)
    assert (opened.complete, opened.source, opened.pairs) == (True, "store", ONE)
    record(home, opened)
    assert recorded(home)["from"] == "pass"
    assert "torch was not given and is 2.11.0" in caplog.text
    fresh = open_store(home, args, 0, MACHINE)  # not resumed: nothing stands on the old numbers
    assert not fresh.complete
    with pytest.raises(LaunchError, match="other inputs: max_length was 8192 and is 4096; r"):
        open_store(home, arguments(tmp_path, max_length=4096), 3, MACHINE)
    for path in opened.folder.glob("pairs-*.bin"):
        path.unlink()
    with pytest.raises(LaunchError, match=f"{opened.folder} is incomplete"):
        open_store(home, args, 3, MACHINE)


@pytest.mark.parametrize(
    "name", ["complete.json", "pairs-*.bin", f"../../runs/*/{run_store.RECORD}"]
)
def test_a_store_that_is_torn_is_no_reason_to_remove_checkpoints(
    home: Path, args: Any, name: str
) -> None:
    folder = finish(home, args).folder
    (path,) = folder.glob(name)
    path.write_text("{")
    if name.endswith(run_store.RECORD):
        shutil.rmtree(folder)
    with pytest.raises(LaunchError) as unknown:
        open_store(home, args, 3, MACHINE)
    assert (unknown.value.code, unknown.value.id) == (Exit.IO, "file-torn")


def test_a_resume_under_another_version_is_refused_unless_the_recipe_allows_it(
    home: Path, args: Any
) -> None:
    done = finish(home, args)
    other = replace(MACHINE, versions={**MACHINE.versions, "torch": "2.12.0"})
    with pytest.raises(LaunchError, match=r"torch was 2\.11\.0 and is 2\.12\.0") as refusal:
        open_store(home, args, 3, other)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, "reference-too-late")
    allowed = replace(other, env={ALLOW_VARIABLE: "1"})
    assert open_store(home, args, 3, allowed).folder == done.folder
    with pytest.raises(LaunchError, match="GPU was NVIDIA H200 and is A100; revert"):
        open_store(home, args, 3, replace(allowed, gpu="A100"))
