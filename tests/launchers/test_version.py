"""Identity of the launcher: the digest that ranks compare, and an image's version."""

from importlib import metadata
from pathlib import Path

import pytest

from launchers import version
from launchers.exits import Exit, LaunchError
from tests.launchers.pods import ROOT


def test_the_digest_is_of_every_source_below_the_package(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "__pycache__/c.py", "..2026_11_22/a.py", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "..data").symlink_to("..2026_11_22")
    assert version.sources(tmp_path) == {"a.py": b"a.py", "sub/b.py": b"sub/b.py"}


def test_names_and_contents_do_not_run_into_each_other() -> None:
    assert version.digest({"a": b"bc"}) != version.digest({"ab": b"c"})
    assert version.digest({"a": b"", "b": b""}) != version.digest({"a": b"b"})


def test_the_charts_digest_counts_and_without_one_the_files_do() -> None:
    assert version.own_digest("given") == "given"
    assert version.own_digest() == version.digest(version.sources(ROOT / "launchers"))


def test_an_images_launcher_must_have_the_charts_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", lambda name: "0.9rc1")
    version.check_installed("0.9-rc.1")  # as a chart and a wheel write it
    monkeypatch.setattr(metadata, "version", lambda name: "0.9")
    version.check_installed("0.9")
    version.check_installed("")
    with pytest.raises(LaunchError, match=r"launcher 0\.9, but the chart needs 1\.0") as refused:
        version.check_installed("1.0")
    assert refused.value.code == Exit.CONFIG
    assert "megatron-dpo 1.0" in refused.value.remedy
    monkeypatch.setattr(metadata, "version", absent)
    version.check_installed("")
    with pytest.raises(LaunchError, match=r"launcher \(not installed\), but the chart needs 1\.0"):
        version.check_installed("1.0")
