import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchers.exits import LaunchError
from launchers.storage import manifest
from launchers.system import lookup

name = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
trees = st.dictionaries(
    st.lists(name, min_size=1, max_size=3).map(lambda parts: "/".join([*parts, "FILE"])),
    st.binary(max_size=64),
    max_size=6,
)


def write(folder: Path, tree: dict[str, bytes]) -> None:
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


@settings(max_examples=25, deadline=None)
@given(trees)
def test_a_manifest_lists_every_file_with_size_and_digest(tree: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), tree)
        found = manifest.digest_folder(Path(folder))
        assert found == {p: (len(c), hashlib.sha256(c).hexdigest()) for p, c in tree.items()}
        assert manifest.verify(Path(folder), found, full=True) == []


@settings(max_examples=25, deadline=None)
@given(trees.filter(lambda t: any(t.values())), st.data())
def test_any_flipped_bit_is_found_by_a_full_look_only(
    tree: dict[str, bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), tree)
        found = manifest.digest_folder(Path(folder))
        path = data.draw(st.sampled_from([p for p, c in tree.items() if c]))
        content = bytearray(tree[path])
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1
        (Path(folder) / path).write_bytes(content)
        assert manifest.verify(Path(folder), found, full=True) == [f"{path}: other content"]
        assert manifest.verify(Path(folder), found, full=False) == []


def test_missing_and_cut_files_are_found_without_reading(tmp_path: Path) -> None:
    write(tmp_path, {"a/f": b"12345", "b/f": b"12345", "c/f": b"12345"})
    found = manifest.digest_folder(tmp_path)
    (tmp_path / "a/f").unlink()
    (tmp_path / "b/f").write_bytes(b"123")
    wrong = ["a/f: missing", "b/f: 3 bytes, not 5"]
    assert manifest.verify(tmp_path, found, full=False) == wrong
    assert manifest.verify(tmp_path, found, full=True) == wrong


def test_a_file_that_became_a_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"a": b"1"})
    found = manifest.digest_folder(tmp_path)
    (tmp_path / "a").unlink()
    write(tmp_path, {"a/f": b"1"})
    assert manifest.verify(tmp_path, found, full=True) != []


def test_links_are_not_followed_but_their_target_counts(tmp_path: Path) -> None:
    write(tmp_path, {"d/f": b"1"})
    (tmp_path / "file").symlink_to("d/f")
    (tmp_path / "folder").symlink_to("d")
    (tmp_path / "nowhere").symlink_to("gone")
    found = manifest.digest_folder(tmp_path)
    assert sorted(found) == ["d/f", "file", "folder", "nowhere"]
    (tmp_path / "nowhere").unlink()
    (tmp_path / "nowhere").symlink_to("away")
    assert manifest.verify(tmp_path, found, full=True) == ["nowhere: other content"]


def test_links_are_followed_on_request(tmp_path: Path) -> None:
    write(tmp_path, {"blobs/f": b"1"})
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/model").symlink_to("../blobs/f")
    followed = manifest.digest_folder(tmp_path / "snapshot", follow=True)
    assert followed == {"model": manifest.entry(tmp_path / "blobs/f")}


def test_a_single_file_is_a_manifest_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"x.jsonl": b"{}"})
    assert list(manifest.digest_folder(tmp_path / "x.jsonl")) == ["x.jsonl"]


def test_skipped_names_are_skipped_at_the_top_only(tmp_path: Path) -> None:
    write(tmp_path, {".git/f": b"", "sub/.git": b"", "f": b""})
    assert sorted(manifest.digest_folder(tmp_path, skip=(".git",))) == ["f", "sub/.git"]


def test_a_link_to_nowhere_can_not_be_followed(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("gone")
    with pytest.raises(LaunchError) as unknown:
        manifest.digest_folder(tmp_path, follow=True)
    assert unknown.value.id == lookup.ID
