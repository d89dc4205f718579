"""Record of a checkpoint's software, and the changes that a resume finds."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from launchers.command import main
from launchers.upstream import patches, record, source, table
from launchers.upstream.patches import judge
from launchers.upstream.table import PATCHES
from scripts.dev import results
from tests.launchers.training import fake_upstream

FEATURE = "pack_lengths"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return versions and digests of an image, which a test may change."""
    found = {name: "1.0" for name in record.PACKAGES} | {"digest": "0" * 64}
    monkeypatch.setattr(source, "version", lambda package: found[package])
    monkeypatch.setattr(source, "digest", lambda module, name: found["digest"])
    return found


def before() -> dict[str, Any]:
    """Return the record of a checkpoint, as the training process writes it."""
    verdict = table.of_feature(FEATURE)
    assert verdict is not None
    return {"patches": record.document([verdict]), "versions": record.versions("abc")}


def test_the_same_software_has_no_difference(installed: dict[str, str]) -> None:
    kept = before()
    assert kept["versions"] == {name: "1.0" for name in record.PACKAGES} | {"launcher": "abc"}
    assert record.differences(kept, [FEATURE, "tokens", "cpu_checkpoint"]) == []


@pytest.mark.parametrize("package", record.PACKAGES)
def test_another_version_is_named_with_both(installed: dict[str, str], package: str) -> None:
    kept = before()
    installed[package] = "1.1"
    assert record.differences(kept, [FEATURE]) == [f"{package} 1.0, now 1.1"]
    installed[package] = ""
    assert record.differences(kept, [FEATURE]) == [f"{package} 1.0, now (none)"]


def test_another_source_or_state_of_a_patch_is_named(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = before()
    installed["digest"] = "1" * 64
    place = "swift.megatron.utils.utils:get_packed_seq_params"
    found = record.differences(kept, [FEATURE])
    assert found[0] == f"{place} of patch pack-lengths sha256 {'0' * 12}, now sha256 {'1' * 12}"
    assert len(found) == 5  # with the trainer's get_logps
    installed["digest"] = "0" * 64
    monkeypatch.setenv(patches.ACCEPT, "pack-lengths")
    assert record.differences(kept, [FEATURE]) == ["patch pack-lengths stepped aside, now accepted"]
    assert record.differences(kept, []) == []  # of another recipe.reference


def test_the_table_of_an_image_needs_neither_settings_nor_packages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert main(["patches"], {patches.ACCEPT: "merge-last"}) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines[1:] if not line.startswith(" ")]
    assert [row.split()[0] for row in rows] == [patch.name for patch in PATCHES]
    assert "  transformer-engine is not installed" in lines
    states = {row.split()[0]: row[37:].strip() for row in rows}
    assert states["merge-last"] == "accepted"
    assert states["chunked-adam"] == "refused"
    assert states["pack-lengths"] == "stepped aside"


def test_the_table_imports_no_package_and_names_unknown_sources(tmp_path: Path) -> None:
    ends = "raise SystemExit\n"
    utils = f"{ends}def get_packed_seq_params(): 1\n"
    files = {"swift/megatron/utils/utils.py": utils, "torch/__init__.py": ends}
    fake_upstream.lay(tmp_path, files)
    (tmp_path / "swift/__init__.py").write_text(ends)
    program = "from launchers.command import main; main(['patches'], {})"
    printed = fake_upstream.run(tmp_path, program, torch=False)
    function = "swift.megatron.utils.utils:get_packed_seq_params"
    assert f"  {function}: unknown in ms-swift (version unknown), sha256 " in printed
    line = next(line for line in printed.splitlines() if line.startswith("chunked-adam"))
    assert line.split() == ["chunked-adam", "numbers", "refused"]


def test_the_releases_of_gpu_runs_are_those_of_the_results() -> None:
    found: dict[str, set[str]] = {name: set() for name in record.RUN_ON_GPUS}
    for file in results.FOLDER.glob("*.json"):
        pattern = rf'"({"|".join(found)})":"([^"]+)"'
        for name, version in re.findall(pattern, file.read_text(encoding="utf-8")):
            found[name].add(version.partition("+")[0])
    assert found == {name: set(releases) for name, releases in record.RUN_ON_GPUS.items()}


def test_packages_that_no_gpu_run_has_had_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    image = {"ms-swift": "4.4.1", "transformer-engine": "2.16.1", "torch": "2.11.0+cu130"}
    monkeypatch.setattr(source, "version", lambda package: image.get(package, ""))
    assert record.never_run() == []
    assert record.NEVER_RUN not in record.table([])
    image |= {"ms-swift": "4.7.0", "apex": "0.1", "flash-attn-4": "4.0.0"}
    assert record.never_run() == ["ms-swift 4.7.0", "flash-attn-4 4.0.0"]
    last = record.table([]).splitlines()[-1]
    assert last == f"{record.NEVER_RUN}: ms-swift 4.7.0, flash-attn-4 4.0.0"


def test_a_patch_that_upstream_makes_unneeded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = next(each for each in PATCHES if each.feature == "checked_read")
    monkeypatch.setattr(source, "digest", lambda *_: patch.fixed[0])
    monkeypatch.setattr(source, "file_of", lambda _: Path())
    verdict = judge(patch, "")
    assert (verdict.state, verdict.is_installed) == ("not needed", False)
    assert f"  {patch.fixed_by}" in record.table([verdict]).splitlines()


def test_a_patch_with_known_sources_names_their_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = next(each for each in PATCHES if each.feature == FEATURE)
    known = {(f.module, f.name): next(iter(f.read)) for f in patch.functions}
    monkeypatch.setattr(source, "digest", lambda *function: known[function])
    monkeypatch.setattr(source, "file_of", lambda _: Path())
    row = record.table([judge(patch, "")]).splitlines()[1]
    assert row.split(maxsplit=3) == ["pack-lengths", "speed", "installed", "ms-swift 4.4.1, 4.4.2"]
