"""The file of digests, what is made of it, and the command that adds the installed packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launchers import logs
from launchers.command import main
from launchers.exits import Exit, LaunchError
from launchers.upstream import digests, source
from launchers.upstream.known import DIGITS
from launchers.upstream.patches import Function
from launchers.upstream.table import PATCHES
from tests.launchers.upstream import releases
from tests.launchers.upstream.releases import needs_releases

FUNCTIONS = {f for patch in PATCHES for f in patch.functions}
OLD, NEW = Function("ms-swift", "swift.a", "old"), Function("ms-swift", "swift.a", "new")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> digests.Digests:
    """Lay out a checkout whose ms-swift is 4.7.0; return the sources that were read before."""
    read = {"old": {"0" * DIGITS: "4.4.1 to 4.6.0"}, "unused": {"1" * 64: "4.4.1"}}
    before: digests.Digests = {"ms-swift": {"swift.a": read}, "transformers": {}}
    for name, path in (("FILE", tmp_path / "digests.json"), ("KNOWN", tmp_path / "known.py")):
        (tmp_path / path).write_text(getattr(digests, name).read_text(encoding="utf-8"))
        monkeypatch.setattr(digests, name, path)
    digests.FILE.write_text(json.dumps(before))
    monkeypatch.setattr(source, "version", lambda name: "4.7.0+x" if name == "ms-swift" else "")
    monkeypatch.setattr(source, "file_of", lambda _: tmp_path)
    monkeypatch.setattr(source, "digest", lambda _, name: {"old": "0" * 64, "new": "2" * 64}[name])
    return before


def written() -> digests.Digests:
    found: digests.Digests = json.loads(digests.FILE.read_text(encoding="utf-8"))
    return found


def test_the_launchers_digests_are_made_of_the_file() -> None:
    assert digests.code(written()) == digests.KNOWN.read_text(encoding="utf-8")
    names = {(p, m, n) for p, ms in written().items() for m, ns in ms.items() for n in ns}
    assert names == {(f.package, f.module, f.name) for f in FUNCTIONS}


def test_the_installed_release_is_added_under_whole_digests(here: digests.Digests) -> None:
    assert digests.write([OLD, NEW]) == [
        "swift.a:new of ms-swift 4.7.0",
        "swift.a:old of ms-swift 4.7.0",
    ]
    read = written()["ms-swift"]["swift.a"]
    assert read == {"new": {"2" * 64: "4.7.0"}, "old": {"0" * 64: "4.4.1 to 4.6.0, 4.7.0"}}
    assert f'"{"2" * DIGITS}": "4.7.0"' in digests.KNOWN.read_text()
    assert digests.write([OLD, NEW]) == [], "the same again adds nothing"


def test_packages_that_are_not_installed_keep_their_digests(
    here: digests.Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "version", lambda _: "")
    assert digests.write([OLD]) == []
    assert written()["ms-swift"]["swift.a"] == {"old": here["ms-swift"]["swift.a"]["old"]}


def test_a_function_that_a_release_does_not_have_is_recorded_as_that() -> None:
    assert digests.merged({"a": "4.4.1"}, "4.6.0", "") == {"a": "4.4.1", "": "4.6.0"}


def test_outside_a_checkout_nothing_is_written(
    here: digests.Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests.FILE.unlink()
    with pytest.raises(LaunchError) as refused:
        digests.write([OLD])
    assert (refused.value.code, refused.value.id) == (Exit.USAGE, "patches-no-checkout")
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # it would outlive this test
    assert main(["patches", "--write"], {}) == Exit.USAGE


@needs_releases
@pytest.mark.parametrize(("package", "version"), [(p, v) for p, v, _ in releases.ROOTS])
def test_the_digests_of_sources_at_hand_are_whole(package: str, version: str) -> None:
    for module, names in written()[package].items():
        found = source.digests(releases.path(package, module, version))
        assert [name for name, read in names.items() if found.get(name, "") not in read] == []
