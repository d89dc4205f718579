"""Cached tokens belong to the same rows: a change of any input of a row gives another folder."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import LaunchError
from launchers.storage import manifest, marker
from launchers.storage.manifest import Entry
from launchers.storage.marker import Marker
from launchers.training.tokens import fingerprint


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Files of a run: a plugin with a module next to it, a dataset, a model."""
    for name, text in {
        "code/plugin.py": "import rows",
        "code/lib/rows.py": "1",
        "code/.git/hook.py": "0",
        "code/notes.txt": "0",
        "data/pairs.jsonl": "{}",
        "model/tokenizer.json": "{}",
        "model/config.json": "{}",
        "model/model-1.safetensors": "weights",
        "model/model.safetensors.index.json": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def place(run: Path, **changed: object) -> Path:
    flags: dict[str, object] = {"max_length": 8192, "dataset_num_proc": 1} | changed
    made_from = fingerprint.inputs(
        flags=flags,
        datasets=[f"{run}/data/pairs.jsonl#500"],
        plugins=[run / "code" / "plugin.py"],
        model=run / "model",
        versions={"ms-swift": "4.4.1"},
    )
    return fingerprint.folder(run, made_from)


DECIDE = ("code/plugin.py", "code/lib/rows.py", "data/pairs.jsonl", "model/tokenizer.json")
OTHERS = ("code/.git/hook.py", "code/notes.txt", "model/model-1.safetensors")


@pytest.mark.parametrize("file", [*DECIDE, *OTHERS, "model/model.safetensors.index.json"])
def test_content_decides_and_nothing_else(run: Path, file: str) -> None:
    before = place(run)
    assert place(run) == before
    (run / file).write_text("other")
    assert (place(run) != before) == (file in DECIDE)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_folder_that_is_closed_holds_no_code_and_one_that_fails_is_not_closed(
    run: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    found, scan = fingerprint.code(run / "code" / "plugin.py"), os.scandir

    def scandir(path: Path) -> Any:
        if Path(path).name == "lost+found":
            raise OSError(number, os.strerror(number), path)
        return scan(path)

    (run / "code" / "lost+found").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(LaunchError) if number == errno.EIO else nullcontext():
        assert fingerprint.code(run / "code" / "plugin.py") == found


def test_flags_that_change_no_row_do_not_count(run: Path) -> None:
    before = place(run)
    assert place(run, dataset_num_proc=8, load_from_cache_file=True) == before
    assert place(run, max_length=4096) != before


def test_a_module_is_distinguished_from_another_of_the_same_name(run: Path) -> None:
    (run / "code" / "rows.py").write_text("2")
    before = place(run)
    (run / "code" / "rows.py").write_text("1")
    (run / "code" / "lib" / "rows.py").write_text("2")
    assert place(run) != before


def sealed(folder: Path, *, size: int) -> None:
    listed = {"pairs.jsonl": Entry(size, "of the marker")}
    marker.write(folder, Marker(inputs={}, manifest=listed))


@pytest.mark.parametrize(("size", "trusted"), [(2, True), (3, False)])
def test_digests_of_a_marker_spare_reading_where_sizes_agree(
    run: Path, size: int, trusted: bool
) -> None:
    sealed(run / "data", size=size)
    file = run / "data" / "pairs.jsonl"
    digest = "of the marker" if trusted else manifest.entry(file).sha256
    assert fingerprint.content(file) == {"pairs.jsonl": digest}
    assert fingerprint.content(run / "data") == {"data/pairs.jsonl": digest}


def test_a_link_is_read_despite_the_marker(run: Path) -> None:
    file = run / "data" / "pairs.jsonl"
    file.rename(run / "real")
    file.symlink_to(run / "real")
    sealed(run / "data", size=2)
    assert fingerprint.content(file) == {"pairs.jsonl": manifest.entry(run / "real").sha256}


def test_a_hash_in_a_file_name_is_no_number_of_samples(tmp_path: Path) -> None:
    odd = tmp_path / "a#1.jsonl"
    odd.write_text("{}")
    assert fingerprint.path_of(str(odd)) == fingerprint.path_of(f"{odd}#20") == odd
