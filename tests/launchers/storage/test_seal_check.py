"""Seals of checkpoints whose files are not those that their ranks have written."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path

import pytest

from launchers.storage import checkpoint

INNER = "iter_0000200"


def save(root: Path, step: int = 200, ranks: int = 4) -> Path:
    """Write a checkpoint as ranks and torch do, with the ranks' notes."""
    folder = root / f"checkpoint-{step}"
    (folder / INNER).mkdir(parents=True)
    names = [f"__{rank}_0.distcp" for rank in range(ranks)]
    for rank, name in enumerate(names):
        (folder / INNER / name).write_bytes(os.urandom(1000))
        checkpoint.digest_own(folder, rank)
    (folder / INNER / ".metadata").write_bytes(pickle.dumps({"storage_data": names}))
    return folder


def test_what_ranks_and_index_agree_on_is_sealed_without_notes(tmp_path: Path) -> None:
    folder = save(tmp_path)
    assert checkpoint.seal(folder, 200) == folder / checkpoint.COMPLETE
    assert not checkpoint.rank_notes(folder) and not checkpoint.verify(folder, 10).damaged


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("lost", "__2_0.distcp is missing"),
        ("cut", "__2_0.distcp has 10 bytes"),
        ("zeros", "__2_0.distcp: bytes from 0 differ"),
        ("unnoted", "__4_0.distcp is in no rank's note"),
        ("unnamed", "__3_0.distcp is not named by"),
        ("absent", "__9_0.distcp is missing"),
        ("index cut", ".metadata is cut"),
        ("torn note", "__2_0.distcp is in no rank's note"),
        ("two writers", "__2_0.distcp was written by two ranks"),
    ],
)
def test_a_disagreement_refuses_the_seal_and_names_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, named: str
) -> None:
    folder = save(tmp_path)
    shard, index = folder / INNER / "__2_0.distcp", folder / INNER / ".metadata"
    if damage == "lost":
        shard.unlink()
    elif damage == "cut":
        os.truncate(shard, 10)
    elif damage == "zeros":
        shard.write_bytes(bytes(1000))
    elif damage == "unnoted":
        (folder / INNER / "__4_0.distcp").write_bytes(b"of an earlier save")
    elif damage == "unnamed":
        index.write_bytes(pickle.dumps([f"__{rank}_0.distcp" for rank in range(3)]))
    elif damage == "absent":
        index.write_bytes(index.read_bytes().replace(b"__3_0", b"__9_0"))
    elif damage == "index cut":
        index.write_bytes(index.read_bytes()[:-1])
    elif damage == "torn note":
        checkpoint.rank_note(folder, 2).write_text("{")
    else:
        note = checkpoint.rank_note(folder, 2).read_text()
        digest = checkpoint.rank_digests(folder, 2)["digests"][f"{INNER}/__2_0.distcp"]
        checkpoint.rank_note(folder, 9).write_text(note.replace(digest, "00000000"))
    with caplog.at_level(logging.WARNING):
        assert checkpoint.seal(folder, 200) is None
    assert checkpoint.read_checkpoint(folder) is None
    (said,) = (line for line in caplog.messages if "checkpoint-not-sealed" in line)
    assert named in said


def test_a_checkpoint_of_a_trainer_without_notes_is_sealed_as_it_is(tmp_path: Path) -> None:
    folder = save(tmp_path)
    for note in checkpoint.rank_notes(folder):
        note.unlink()
    assert checkpoint.seal(folder, 200)


def test_files_of_an_interrupted_save_are_not_sealed_with_the_next_one(tmp_path: Path) -> None:
    folder = save(tmp_path, ranks=8)
    checkpoint.prepare(folder)
    assert not list(folder.rglob("*.distcp")) and not checkpoint.rank_notes(folder)


@pytest.mark.parametrize("kind", ["link", "of another run"])
def test_a_users_folder_is_renamed_before_a_save(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "runs" / "dpo-42"
    folder = home / "checkpoints" / "checkpoint-200"
    other = tmp_path / "runs" / "dpo-7"
    for each in (home, other):
        (each / "checkpoints").mkdir(parents=True)
        (each / "inputs.json").write_text(f'{{"recipe": "{each.name}"}}')
    theirs = save(other / "checkpoints")
    checkpoint.seal(theirs, 200)
    folder.symlink_to(theirs) if kind == "link" else theirs.rename(folder)
    checkpoint.prepare(folder)
    (kept,) = folder.parent.iterdir()
    assert kept.name.startswith("checkpoint-200.kept-") and (kept / checkpoint.COMPLETE).exists()
