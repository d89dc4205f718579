"""Seals of checkpoints whose files are not those that their ranks have written."""

import json
import logging
import os
import pickle
from pathlib import Path

import pytest

from launchers.storage import checkpoint, retention
from tests.launchers import model_folder
from tests.launchers.model_folder import INDEX, TWO

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path)


def test_what_ranks_and_index_agree_on_is_sealed_without_notes(folder: Path) -> None:
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
        ("index lost", ".metadata is missing"),
        ("index empty", ".metadata is empty"),
        ("torn note", "__2_0.distcp is in no rank's note"),
        ("two writers", "__2_0.distcp was written by two ranks"),
    ],
)
def test_a_disagreement_refuses_the_seal_and_names_the_file(
    folder: Path, caplog: pytest.LogCaptureFixture, damage: str, named: str
) -> None:
    shard, index = folder / INNER / "__2_0.distcp", folder / INNER / ".metadata"
    note, own = checkpoint.rank_note(folder, 2), f"{INNER}/__2_0.distcp"
    other = note.read_text().replace(checkpoint.rank_digests(folder, 2)["digests"][own], "00000000")
    content = index.read_bytes()
    written: dict[str, tuple[Path, bytes | None]] = {
        "lost": (shard, None),
        "index lost": (index, None),
        "zeros": (shard, bytes(1000)),
        "cut": (shard, shard.read_bytes()[:10]),
        "unnoted": (folder / INNER / "__4_0.distcp", b"of an earlier save"),
        "unnamed": (index, pickle.dumps([f"__{rank}_0.distcp" for rank in range(3)])),
        "absent": (index, content.replace(b"__3_0", b"__9_0")),
        "index empty": (index, b""),
        "index cut": (index, content[:-1]),
        "torn note": (note, b"{"),
        "two writers": (checkpoint.rank_note(folder, 9), other.encode()),
    }
    path, data = written[damage]
    path.write_bytes(data) if data is not None else path.unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpoint.seal(folder, 200) is None
    assert checkpoint.read_checkpoint(folder) is None
    (said,) = (line for line in caplog.messages if "checkpoint-not-sealed" in line)
    assert named in said


def test_a_checkpoint_of_a_trainer_without_notes_is_sealed_as_it_is(folder: Path) -> None:
    for note in checkpoint.rank_notes(folder):
        note.unlink()
    assert checkpoint.seal(folder, 200)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_save_writes_no_file_that_a_process_of_an_earlier_leader_has_open(
    tmp_path: Path, is_sealed: bool
) -> None:
    retention.prepare(tmp_path / "checkpoint-200")
    folder = save(tmp_path, ranks=8)
    checkpoint.merged(folder).mkdir()
    (checkpoint.merged(folder) / "model.safetensors").write_bytes(b"w")
    if is_sealed:
        checkpoint.seal(checkpoint.merged(folder), 200)
        checkpoint.seal(folder, 200)
    retention.prepare(folder)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [folder / checkpoint.SAVING]
    assert json.loads(left[0].read_text())["step"] == 200


def test_a_deleted_file_that_an_nfs_client_has_open_is_not_sealed(folder: Path) -> None:
    opened = folder / INNER / ".nfs0000000000a1b2c3"
    opened.touch()
    checkpoint.seal(folder, 200)
    opened.unlink()
    assert checkpoint.read_checkpoint(folder)


@pytest.mark.parametrize("kind", ["link", "of another run", "without a mark", "copied", "merged"])
def test_a_users_folder_is_renamed_before_a_save(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "runs" / "dpo-42"
    folder = home / "checkpoints" / "checkpoint-200"
    other = tmp_path / "runs" / "dpo-7"
    for each in (home, other):
        (each / "checkpoints").mkdir(parents=True)
        (each / "inputs.json").write_text(f'{{"recipe": "{each.name}"}}')
    theirs = save((home if kind == "copied" else other) / "checkpoints")
    checkpoint.seal(theirs, 100 if kind == "copied" else 200)
    if kind == "without a mark":
        (theirs / checkpoint.COMPLETE).unlink()
    if kind == "link":
        folder.symlink_to(theirs)
    elif kind == "merged":
        theirs.rename(checkpoint.merged(folder))
    elif kind != "copied":
        theirs.rename(folder)
    before = files(folder.parent)
    retention.prepare(folder)
    new, kept = sorted(folder.parent.iterdir(), key=lambda path: ".kept-" in path.name)
    assert files(kept) == before and files(new) == [checkpoint.SAVING]


def files(root: Path) -> list[str]:
    return sorted(name for _, _, names in os.walk(root, followlinks=True) for name in names)


@pytest.mark.parametrize("damage", ["", "cut", "cut header", "empty", "absent"])
def test_weights_are_sealed_only_as_their_headers_and_index_say(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """The transformers trainer writes no notes of its ranks."""
    folder = model_folder.split(model_folder.write(tmp_path / "checkpoint-3"))
    (folder / "adapter.safetensors").write_bytes(b"not of this format")
    if damage == "absent":
        (folder / TWO).unlink()
    elif damage:
        left = {"cut": -1, "cut header": 20, "empty": 0}[damage]
        (folder / TWO).write_bytes((folder / TWO).read_bytes()[:left])
    with caplog.at_level(logging.WARNING):
        sealed = checkpoint.seal(folder, 3)
    assert (sealed is None) == bool(damage) == (TWO in caplog.text)


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": 1}', "{"])
def test_an_index_of_weights_of_another_form_is_not_judged(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "checkpoint-3"
    folder.mkdir()
    (folder / INDEX).write_text(text)
    assert checkpoint.seal(folder, 3)


def test_shards_with_a_prefix_are_found_in_the_index(folder: Path) -> None:
    for note in checkpoint.rank_notes(folder):
        note.unlink()
    shards = list((folder / INNER).glob("*.distcp"))
    names = [shard.rename(shard.with_name(f"model{shard.name}")).name for shard in shards]
    (folder / INNER / ".metadata").write_bytes(pickle.dumps(names))
    assert checkpoint.seal(folder, 200)
