import os
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.storage import marker
from launchers.storage.visible import await_outputs
from tests.launchers.sources import CONFIG, MODEL, PAIRS, get, local_model, model_at, refused, tree


def test_files_from_elsewhere_are_copied_once(tmp_path: Path, work: Workspace) -> None:
    there = local_model(tmp_path / "elsewhere" / "m")
    (tmp_path / "pairs.jsonl").write_bytes(PAIRS)
    urls = (f"file://{there}", work, f"file://{tmp_path / 'pairs.jsonl'}")
    assert [o.state for o in get(*urls)] == ["done", "done"]
    again = get(*urls)
    assert [o.state for o in again] == ["up to date", "up to date"]
    assert tree(model_at(urls[0], work)) == MODEL
    assert (again[1].path / "pairs.jsonl").read_bytes() == PAIRS


def test_a_copy_follows_its_source_s_content_and_not_its_times(
    tmp_path: Path, work: Workspace
) -> None:
    there = local_model(tmp_path / "elsewhere" / "m")
    url = f"file://{there}"
    first = get(url, work)[0]
    os.utime(there / "config.json", (1, 1))
    assert get(url, work)[0].state == "up to date"
    (there / "config.json").write_bytes(CONFIG[::-1])
    second = get(url, work)[0]
    assert second.state == "done" and second.digest != first.digest
    assert tree(model_at(url, work))["config.json"] == CONFIG[::-1]


def test_the_links_of_a_hub_s_cache_are_copied_as_files(tmp_path: Path, work: Workspace) -> None:
    local_model(tmp_path / "blobs")
    snapshot = tmp_path / "snapshots" / "m"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/config.json")
    url = f"file://{snapshot}"
    get(url, work)
    copied = model_at(url, work) / "config.json"
    assert not copied.is_symlink() and copied.read_bytes() == CONFIG


def test_files_of_the_workspace_are_used_in_place_with_a_digest_of_their_content(
    work: Workspace,
) -> None:
    there = local_model(work.root / "mine" / "m")
    first = get(f"file://{there}", work)[0]
    assert (first.state, first.why) == ("up to date", "used in place")
    assert tree(there) == MODEL
    found = marker.read(first.path)
    assert found is not None and marker.digest(found) == first.digest
    os.utime(there / "config.json", (1, 1))
    assert get(f"file://{there}", work)[0].digest == first.digest
    (there / "config.json").write_bytes(CONFIG[::-1])
    assert get(f"file://{there}", work)[0].digest != first.digest


def test_a_model_of_a_library_is_used_in_place_and_a_copy_of_it_stays(
    tmp_path: Path, work: Workspace
) -> None:
    there = local_model(tmp_path / "library" / "m")
    copied = get(f"file://{there}", work)[0]
    there.chmod(0o555)
    inside = replace(work, libraries=(tmp_path / "library",))
    found = get(f"file://{there}", inside)[0]
    assert (found.state, found.why) == ("up to date", "used in place")
    assert model_at(f"file://{there}", inside) == there
    assert [each.name for each in found.path.iterdir()] == [marker.NAME]
    assert tree(copied.path / "m") == MODEL
    again = get(f"file://{there}", work)[0]
    assert (again.state, again.digest) == ("up to date", copied.digest)

    outputs = [(str(found.path), found.digest)]
    await_outputs(outputs)
    (there / "config.json").write_bytes(CONFIG + b" ")  # as on a node with another library
    with pytest.raises(LaunchError, match="config.json has ") as raised:
        await_outputs(outputs)
    assert (raised.value.code, raised.value.id) == (Exit.CONFIG, "library-differs")


def test_a_file_that_is_not_there_is_a_missing_input(tmp_path: Path, work: Workspace) -> None:
    for place in (tmp_path / "nowhere", work.root / "nowhere"):
        assert refused(f"file://{place}", work).code == Exit.INPUT_MISSING


@pytest.mark.parametrize("where", ["elsewhere", "workspace"])
def test_a_link_that_leads_nowhere_is_a_missing_input_with_its_name(
    tmp_path: Path, work: Workspace, where: str
) -> None:
    there = local_model((tmp_path if where == "elsewhere" else work.root / "mine") / "m")
    (there / "weights.safetensors").symlink_to("../../blobs/0123")
    with pytest.raises(LaunchError, match="blobs/0123") as missing:
        get(f"file://{there}", work)
    assert (missing.value.code, missing.value.id) == (Exit.INPUT_MISSING, "source-link-broken")
    assert str(there / "weights.safetensors") in missing.value.cause
