"""The checkpoint that is chosen is whole, and each other one is named with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
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
    work: Workspace,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    id: str,
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
    (folder / "iter_0000005" / "__1_0.distcp").write_bytes(b"other")  # written again since
    checkpoint.seal(folder, 5)
    assert not checkpoint.verify(folder, 10).damaged
    assert sorted(json.loads((folder / checkpoint.COMPLETE).read_text())["files"]) == [
        f"iter_0000005/__{rank}_0.distcp" for rank in (0, 11, 1)
    ]


def test_a_seal_that_was_killed_does_not_affect_the_next_one(work: Workspace) -> None:
    folder = work.checkpoints / "checkpoint-5"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    (folder / ".COMPLETE.json.partial").write_text("{")
    checkpoint.seal(folder, 5)
    assert checkpoint.read(folder) is not None
