"""The archives of images, and where the image of the end-to-end tests comes from."""

import io
import tarfile
from pathlib import Path

import pytest

from scripts.problem import Problem
from tests.e2e.cluster import image_archive
from tests.e2e.image import __main__ as image
from tests.e2e.image import debian

ONE_LINE = """\
# deb http://commented.example.org/debian bookworm main
deb-src http://source.example.org/debian bookworm main
deb [signed-by=/usr/share/keyrings/a.gpg] http://other.example.org/apt stable main
deb [arch=amd64] http://security.example.org/debian bookworm-security main
deb [arch=amd64 trusted=yes] http://mirror.example.org/debian bookworm main contrib
"""
STANZAS = """\
Types: deb
URIs: http://other.example.org/debian
Suites: nodistro
Components: main

Types: deb
# comment
URIs: http://mirror.example.org/debian http://second.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    file = tmp_path / "layer.tar"
    with tarfile.open(file, "w") as tar:
        entry = tarfile.TarInfo("pause")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    return file


def test_a_file_that_is_not_an_image_archive_is_refused(tmp_path: Path, layer: Path) -> None:
    good, text = tmp_path / "pause.tar", tmp_path / "text.tar"
    image_archive.write(good, "localhost/x:1", layer, {})
    image_archive.check(good)
    text.write_text("no archive")
    for bad in (layer, text, tmp_path / "none.tar", tmp_path):
        with pytest.raises(Problem, match="is not an image archive; write one with"):
            image_archive.check(bad)


@pytest.mark.parametrize("sources", [ONE_LINE, STANZAS], ids=["list", "sources"])
def test_the_mirror_is_the_one_that_apt_has_for_the_release(sources: str) -> None:
    assert debian.mirror(sources, "bookworm") == "http://mirror.example.org/debian"
    assert debian.mirror(sources, "trixie") is None


def test_an_image_is_made_anew_when_what_it_is_made_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(target: Path) -> None:
        made.append(target)
        target.write_bytes(b"image")

    current = {"key": "first"}
    monkeypatch.setattr(image, "ARCHIVE", tmp_path / "e2e.tar")
    monkeypatch.setattr(image, "by_debootstrap", make)
    monkeypatch.setattr(image, "by_engine", make)
    monkeypatch.setattr(image, "key", lambda: current["key"])
    image.main()
    image.main()
    assert len(made) == 1
    current["key"] = "second"
    image.main()
    assert len(made) == 2
