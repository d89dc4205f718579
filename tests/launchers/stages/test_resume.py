"""The checkpoint that is chosen is whole, and each other one is named with the reason."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.stages.attempt_record import begin
from launchers.stages.resume import choose, verify_share
from launchers.storage import checkpoint
from tests.launchers.stages.checkpoints import sealed


def cut(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def flip(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"v")


def unseal(folder: Path) -> None:
    (folder / checkpoint.COMPLETE).unlink()


def tear_seal(folder: Path) -> None:
    (folder / checkpoint.COMPLETE).write_text('{"step": 10, "files": {')


def of_another_step(folder: Path) -> None:
    document = json.loads((folder / checkpoint.COMPLETE).read_text())
    (folder / checkpoint.COMPLETE).write_text(json.dumps(document | {"step": 11}))


def half_rotated(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "id"),
    [
        (cut, "checkpoint-file"),
        (half_rotated, "checkpoint-file"),
        (unseal, "checkpoint-unsealed"),
        (tear_seal, "checkpoint-seal"),
        (of_another_step, "checkpoint-step"),
        (flip, "checkpoint-damaged"),
    ],
)
def test_a_damaged_one_is_named_and_the_one_before_is_chosen(
    work: Workspace, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], id: str
) -> None:
    older, newer = sealed(work, 5), sealed(work, 10)
    damage(newer.path)
    assert choose(work.checkpoints, seconds=10) == older
    (line,) = [r.getMessage() for r in caplog.records if "checkpoint not chosen" in r.getMessage()]
    assert f"id={id}" in line and "name=checkpoint-10" in line
    assert choose(work.checkpoints, seconds=0) == older or damage is flip


def test_a_damaged_one_is_not_chosen_again_until_it_is_saved_anew(work: Workspace) -> None:
    older, newer = sealed(work, 5), sealed(work, 10)
    flip(newer.path)
    choose(work.checkpoints, seconds=10)
    assert choose(work.checkpoints, seconds=0) == older
    checkpoint.seal(newer.path, 10)
    assert choose(work.checkpoints, seconds=10) == newer


def test_another_rank_that_finds_damage_ends_the_attempt(work: Workspace) -> None:
    older, newer = sealed(work, 5), sealed(work, 10)
    flip(newer.path)
    verify_share(newer, 10, rank=1, nodes=2, attempt=1)  # rank 0's share has the only chunk
    with pytest.raises(LaunchError) as caught:
        verify_share(newer, 10, rank=0, nodes=2, attempt=1)
    assert (caught.value.code, caught.value.id) == (Exit.IO, "checkpoint-digest")
    assert checkpoint.newest(work.checkpoints) == older


def test_a_checkpoint_of_an_older_launcher_has_no_digests_and_is_chosen(work: Workspace) -> None:
    only = sealed(work, 5)
    document = json.loads((only.path / checkpoint.COMPLETE).read_text())
    del document["digests"]
    (only.path / checkpoint.COMPLETE).write_text(json.dumps(document))
    assert choose(work.checkpoints, seconds=10) == only


def test_the_ranks_digests_go_into_the_seal(work: Workspace) -> None:
    folder = work.checkpoints / "checkpoint-5"
    (folder / "iter_0000005").mkdir(parents=True)
    for rank in (0, 1, 11):
        (folder / "iter_0000005" / f"__{rank}_0.distcp").write_bytes(bytes([rank]))
        checkpoint.digest_own(folder, rank)
    (folder / "iter_0000005" / ".metadata").write_text("the index of the shards")
    checkpoint.seal(folder, 5)
    assert not checkpoint.verify(folder, 10).damaged
    assert sorted(json.loads((folder / checkpoint.COMPLETE).read_text())["files"]) == [
        "iter_0000005/.metadata",
        *(f"iter_0000005/__{rank}_0.distcp" for rank in (0, 11, 1)),
    ]


def test_a_seal_that_was_killed_does_not_affect_the_next_one(work: Workspace) -> None:
    folder = work.checkpoints / "checkpoint-5"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    (folder / ".COMPLETE.json.partial").write_text("{")
    checkpoint.seal(folder, 5)
    assert checkpoint.read_checkpoint(folder) is not None


def run_of(work: Workspace, recipe: str = "a") -> Workspace:
    work.home.mkdir(parents=True, exist_ok=True)
    work.inputs.write_text(json.dumps({"recipe": recipe, "model": "m"}))
    return work


def copied(source: Workspace, target: Workspace) -> checkpoint.Checkpoint:
    made = sealed(source, 10)
    target.checkpoints.mkdir(parents=True, exist_ok=True)
    path = shutil.copytree(made.path, target.checkpoints / made.path.name)
    return checkpoint.Checkpoint(path=path, step=10)


@pytest.mark.parametrize(
    ("recipe", "cause"),
    [("a", "it is of run other"), ("b", "it is of run other, with another recipe")],
)
def test_a_checkpoint_of_another_run_gives_way_to_the_runs_own(
    work: Workspace, caplog: pytest.LogCaptureFixture, recipe: str, cause: str
) -> None:
    own = sealed(run_of(work), 5)
    copied(run_of(replace(work, run="other"), recipe), work)
    assert choose(work.checkpoints, seconds=10) == own
    (line,) = [r.getMessage() for r in caplog.records if "checkpoint not chosen" in r.getMessage()]
    assert "id=checkpoint-foreign" in line and f'cause="{cause}"' in line


def test_a_run_that_has_only_checkpoints_of_another_one_does_not_begin_anew(
    work: Workspace,
) -> None:
    copied(run_of(replace(work, run="other")), run_of(work))
    with pytest.raises(LaunchError, match="move its whole folder") as refused:
        choose(work.checkpoints, seconds=10)
    assert (refused.value.code, refused.value.id) == (Exit.CONFIG, "checkpoint-foreign")


def test_a_run_whose_folder_was_moved_to_another_name_is_the_same_run(work: Workspace) -> None:
    first = run_of(replace(work, run="first"))
    begin(first.attempts / "1", None)
    sealed(first, 5)
    first.home.rename(work.home)
    found = choose(work.checkpoints, seconds=10)
    assert found is not None and found.step == 5
    shutil.rmtree(work.attempts)
    with pytest.raises(LaunchError):
        choose(work.checkpoints, seconds=10)


def test_a_checkpoint_of_a_launcher_that_noted_no_run_is_chosen(work: Workspace) -> None:
    found = sealed(run_of(work), 5)
    seal = found.path / checkpoint.COMPLETE
    document = json.loads(seal.read_text())
    assert document.pop("run") == work.run and document.pop("inputs")["recipe"] == "a"
    seal.write_text(json.dumps(document))
    assert choose(work.checkpoints, seconds=10) == found
