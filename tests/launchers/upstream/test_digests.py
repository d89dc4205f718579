"""The file of digests, and the command that adds the installed packages."""

import json
from pathlib import Path

import pytest

from launchers import logs
from launchers.command import main
from launchers.exits import Exit, LaunchError
from launchers.upstream import digests, source
from launchers.upstream.patches import Digests, Function

OLD, NEW = Function("ms-swift", "swift.a", "old"), Function("ms-swift", "swift.a", "new")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digests:
    """Lay out a checkout whose ms-swift is 4.7.0; return the sources that were read before."""
    read = {"old": {"0" * 16: "4.4.1 to 4.6.0"}, "unused": {"1" * 16: "4.4.1"}}
    before: Digests = {"ms-swift": {"swift.a": read}, "transformers": {}}
    monkeypatch.setattr(digests, "FILE", tmp_path / "digests.json")
    (tmp_path / "digests.json").write_text(json.dumps(before))
    monkeypatch.setattr(source, "version", lambda name: "4.7.0+x" if name == "ms-swift" else "")
    monkeypatch.setattr(source, "file_of", lambda _: tmp_path)
    monkeypatch.setattr(source, "digest", lambda _, name: {"old": "0" * 64, "new": "2" * 64}[name])
    return before


def written(folder: Path) -> Digests:
    found: Digests = json.loads((folder / "digests.json").read_text(encoding="utf-8"))
    return found


def test_the_installed_release_is_added(here: Digests, tmp_path: Path) -> None:
    said = ["swift.a:new of ms-swift 4.7.0", "swift.a:old of ms-swift 4.7.0"]
    assert digests.write([OLD, NEW]) == said
    read = written(tmp_path)["ms-swift"]["swift.a"]
    assert read == {"new": {"2" * 16: "4.7.0"}, "old": {"0" * 16: "4.4.1 to 4.6.0, 4.7.0"}}
    assert digests.write([OLD, NEW]) == [], "the same again adds nothing"


def test_packages_that_are_not_installed_keep_their_digests(
    here: Digests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "version", lambda _: "")
    assert digests.write([OLD]) == []
    assert written(tmp_path)["ms-swift"]["swift.a"] == {"old": here["ms-swift"]["swift.a"]["old"]}


def test_a_function_that_a_release_does_not_have_is_recorded_as_that() -> None:
    assert digests.merged({"a": "4.4.1"}, "4.6.0", "") == {"a": "4.4.1", "": "4.6.0"}


def test_outside_a_checkout_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "PROJECT", tmp_path / "pyproject.toml")
    with pytest.raises(LaunchError) as refused:
        digests.write([OLD])
    assert (refused.value.code, refused.value.id) == (Exit.USAGE, "patches-no-checkout")
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # it would outlive this test
    assert main(["patches", "--write"], {}) == Exit.USAGE
