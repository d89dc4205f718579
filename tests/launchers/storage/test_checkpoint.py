from pathlib import Path

from launchers.storage.checkpoint import COMPLETE, merged, newest, read_checkpoint, seal
from launchers.system.atomic_file import replace


def saved(root: Path, step: int) -> Path:
    folder = root / f"checkpoint-{step}"
    (folder / "iter").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w" * 10)
    (folder / "iter" / "common.pt").write_bytes(b"c")
    return folder


def sealed(root: Path, *steps: int) -> None:
    for step in steps:
        seal(saved(root, step), step)


def test_the_newest_is_chosen_by_step_not_by_name(tmp_path: Path) -> None:
    sealed(tmp_path, 5, 10, 100, 20)
    found = newest(tmp_path)
    assert found is not None and found.step == 100


def test_a_seal_without_files_gives_way_to_the_one_before(tmp_path: Path) -> None:
    sealed(tmp_path, 5, 10)
    (tmp_path / "checkpoint-10" / COMPLETE).write_text('{"step": 10, "files": {}}')
    found = newest(tmp_path)
    assert found is not None and found.step == 5


def test_a_folder_that_is_no_checkpoint_is_passed_over(tmp_path: Path) -> None:
    odd = tmp_path / "checkpoint-last"
    odd.mkdir()
    (odd / COMPLETE).write_text("[]")
    assert newest(tmp_path) is None
    assert newest(tmp_path / "missing") is None


def test_megatrons_own_state_is_recognised(tmp_path: Path) -> None:
    folder = saved(tmp_path, 5)
    seal(folder, 5)
    plain = read_checkpoint(folder)
    assert plain is not None and not plain.has_megatron_state
    (folder / "iter_0000005").mkdir()
    (folder / "iter_0000005" / ".metadata").touch()
    assert plain.has_megatron_state


def test_a_merged_model_is_no_checkpoint_and_known_to_be_whole(tmp_path: Path) -> None:
    folder = saved(tmp_path, 5)
    seal(folder, 5)
    plain = newest(tmp_path)
    assert plain is not None and not plain.is_merged_whole
    whole = merged(folder)
    whole.mkdir()
    (whole / "model.safetensors").write_bytes(b"w")
    assert not plain.is_merged_whole
    seal(whole, 5)
    assert plain.is_merged_whole
    assert newest(tmp_path) == plain
    seal(whole, 6)
    assert not plain.is_merged_whole


def test_a_replaced_file_leaves_no_partial(tmp_path: Path) -> None:
    replace(tmp_path / "a.json", "1")
    replace(tmp_path / "a.json", "2")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "2"
