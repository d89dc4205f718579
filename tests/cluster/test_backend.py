"""auto takes kind exactly where a container engine answers."""

from pathlib import Path

import pytest

from tests.e2e.cluster import cluster


def engine(folder: Path, name: str, code: int) -> None:
    file = folder / name
    file.write_text(f'#!/bin/sh\n[ "$1" = info ] && exit {code}\nexit 9\n')
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        ({}, "processes"),
        ({"docker": 0}, "kind"),
        ({"docker": 1}, "processes"),
        ({"docker": 1, "podman": 0}, "kind"),
    ],
    ids=["none", "docker", "docker without a daemon", "docker without a daemon, podman"],
)
def test_auto_asks_the_engines(
    engines: dict[str, int], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in engines.items():
        engine(tmp_path, name, code)
    # Scripts start with /bin/sh, by its path: nothing else is needed.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cluster.choose("auto") == expected


def test_an_asked_backend_is_taken_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert cluster.choose("kind") == "kind"
    assert cluster.choose("processes") == "processes"
