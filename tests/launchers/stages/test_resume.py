"""The checkpoint that is chosen is whole, and each other one is named with the reason."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.stages.attempt_record import begin
from launchers.stages.resume import choose, verify_share
from launchers.storage import checkpoint
from tests.launchers.stages.checkpoints import WEIGHTS, sealed


def leave(file: Path, content: bytes | None) -> None:
    """Write a file anew, or remove it."""
    file.unlink() if content is None else file.write_bytes(content)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "checkpoint not chosen" in text]


@pytest.mark.parametrize(
    ("name", "content", "id"),
    [
        (WEIGHTS, b"", "checkpoint-file"),
        (WEIGHTS, None, "checkpoint-file"),
        (checkpoint.COMPLETE, None, "checkpoint-unsealed"),
        (checkpoint.COMPLETE, b'{"step": 10, "files": {', "checkpoint-seal"),
        (
            checkpoint.COMPLETE,
            b'{"step": 11, "files": {"model.safetensors": 1}}',
            "checkpoint-step",
        ),
        (WEIGHTS, b"v", "checkpoint-damaged"),
    ],
    ids=["cut", "half rotated", "unsealed", "torn seal", "of another step", "flipped"],
)
def test_a_damaged_one_is_named_and_the_one_before_is_chosen(
    work: Workspace, caplog: pytest.LogCaptureFixture, name: str, content: bytes | None, id: str
) -> None:
    older, newer = sealed(work, 5), sealed(work, 10)
    leave(newer.path / name, content)
    assert choose(work.checkpoints, seconds=10) == older
    (line,) = reasons(caplog)
    assert f"id={id}" in line and "name=checkpoint-10" in line
    assert choose(work.checkpoints, seconds=0) == older  # also one whose content was not read again
    (newer.path / WEIGHTS).write_bytes(b"w")
    checkpoint.seal(newer.path, 10)
    assert choose(work.checkpoints, seconds=10) == newer


@pytest.mark.parametrize("content", ["", '{"step": 10, "files": {'])
def test_a_torn_seal_of_the_only_checkpoint_begins_nothing_anew(
    work: Workspace, content: str
) -> None:
    (sealed(work, 10).path / checkpoint.COMPLETE).write_text(content)
    with pytest.raises(LaunchError) as unknown:
        choose(work.checkpoints, seconds=10)
    assert (unknown.value.code, unknown.value.id) == (Exit.IO, "file-torn")


def test_another_rank_that_finds_damage_ends_the_attempt(work: Workspace) -> None:
    older, newer = sealed(work, 5), sealed(work, 10)
    (newer.path / WEIGHTS).write_bytes(b"v")
    verify_share(newer, 10, rank=1, nodes=2, attempt=1)  # rank 0's share has the only chunk
    with pytest.raises(LaunchError) as caught:
        verify_share(newer, 10, rank=0, nodes=2, attempt=1)
    assert (caught.value.code, caught.value.id) == (Exit.IO, "checkpoint-digest")
    assert checkpoint.newest(work.checkpoints) == older


@pytest.mark.parametrize("lacks", [["digests"], ["run", "inputs"]])
def test_a_checkpoint_of_a_launcher_that_noted_less_is_chosen(
    work: Workspace, lacks: list[str]
) -> None:
    only = sealed(run_of(work), 5)
    document = json.loads((only.path / checkpoint.COMPLETE).read_text())
    assert (document["run"], document["inputs"]["recipe"]) == (work.run, "a")
    kept = {key: value for key, value in document.items() if key not in lacks}
    (only.path / checkpoint.COMPLETE).write_text(json.dumps(kept))
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
    (line,) = reasons(caplog)
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
