"""The dry run of a release: what it refuses, and that two clones give the same bytes."""

import hashlib
import json
import os
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from scripts.dev.release import package
from tests.chart.helm import Document, require
from tests.scripts.dev.release import checkouts

VERSION = "0.2.0"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkouts.made(tmp_path_factory.mktemp("origin") / "main", filled=True)


@pytest.fixture(scope="module")
def released(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = checkouts.clone(origin, tmp_path_factory.mktemp("released") / "first")
    done = checkouts.release(folder, VERSION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was pushed" in done.stdout
    checkouts.commit(folder)
    return folder


@pytest.fixture(scope="module")
def bill(released: Path) -> Document:
    text = (released / "dist" / f"megatron-dpo-{VERSION}.spdx.json").read_text("utf-8")
    found: Document = json.loads(text)
    return found


def test_two_clones_give_the_same_bytes(released: Path, tmp_path: Path) -> None:
    again = checkouts.clone(released, tmp_path / "other")
    for number, path in enumerate(sorted((again / "chart").rglob("*"))):
        os.utime(path, (10**9 + number, 10**9 + number))
    zone = {"TZ": "Asia/Kolkata", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    done = checkouts.release(again, VERSION, "--publish", umask=0o077, **zone)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = ((clone / "dist" / "SHA256SUMS").read_text() for clone in (released, again))
    assert first == second
    lines = [line.split("  ") for line in first.splitlines()]
    assert {name.rpartition(".")[2] for _, name in lines} == {"tgz", "tar", "whl", "json"}
    assert f"megatron-dpo-{VERSION}.schema.json" in [name for _, name in lines]
    for digest, name in lines:
        assert hashlib.sha256((again / "dist" / name).read_bytes()).hexdigest() == digest
    assert checkouts.git(again, "status", "--porcelain") == ""


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_both_helms_give_the_same_package(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helm: str
) -> None:
    monkeypatch.setattr(package, "find_helm", lambda: Path(require(helm)))
    with tarfile.open(released / "dist" / f"megatron-dpo-{VERSION}.tgz") as tar:
        file = tar.extractfile(f"megatron-dpo/{package.IMAGE}")
        image = file.read().decode().strip() if file else ""
    with tarfile.open(released / "dist" / f"megatron-dpo-launchers-{VERSION}.oci.tar") as tar:
        assert f"blobs/{image.replace(':', '/')}" in tar.getnames()
    made = package.build(tmp_path, released, image)
    assert made.read_bytes() == (released / "dist" / made.name).read_bytes()


def test_no_time_owner_or_order_gets_into_the_package(released: Path) -> None:
    with tarfile.open(released / "dist" / f"megatron-dpo-{VERSION}.tgz") as tar:
        members = tar.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.mode) for m in members} == {(package.EPOCH, 0, 0, 0o644)}
    names = [m.name for m in members]
    assert names == sorted(names)
    assert not {"megatron-dpo/icon.svg", "megatron-dpo/artifacthub-repo.yml"} & set(names)


def test_chart_and_wheel_have_the_version(released: Path) -> None:
    [wheel] = (released / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith("/METADATA")]
        assert f"\nVersion: {VERSION}\n" in archive.read(name).decode()
    project = tomllib.loads((released / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION
    notes = (released / "dist" / "notes.md").read_text(encoding="utf-8")
    assert notes.startswith("### Added\n- ")


def test_the_sbom_lists_every_file_of_the_package(released: Path, bill: Document) -> None:
    packed = released / "dist" / f"megatron-dpo-{VERSION}.tgz"
    listed = {each["fileName"]: each["checksums"] for each in bill["files"]}
    with tarfile.open(packed) as tar:
        for member in tar.getmembers():
            held = tar.extractfile(member)
            data = held.read() if held else b""
            own = listed.pop("./" + member.name.partition("/")[2])
            sums = [each["checksumValue"] for each in own]
            assert sums == [hashlib.sha1(data).hexdigest(), hashlib.sha256(data).hexdigest()]
    assert not listed
    chart = bill["packages"][0]
    assert chart["checksums"][0]["checksumValue"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    ones = "".join(sorted(each["checksums"][0]["checksumValue"] for each in bill["files"]))
    code = chart["packageVerificationCode"]["packageVerificationCodeValue"]
    assert code == hashlib.sha1(ones.encode()).hexdigest()


def test_the_sboms_relationships_join_its_elements(bill: Document) -> None:
    names = [each["SPDXID"] for each in (*bill["packages"], *bill["files"])]
    assert len(set(names)) == len(names)
    assert {row["relatedSpdxElement"] for row in bill["relationships"]} == set(names)
    kinds = {row["relatedSpdxElement"]: row["relationshipType"] for row in bill["relationships"]}
    assert {kinds[name] for name in names if "-Launcher-" in name} == {"CONTAINS"}
    assert {row["spdxElementId"] for row in bill["relationships"]} == {"SPDXRef-DOCUMENT", names[0]}


def test_what_is_not_ready_is_refused(origin: Path, tmp_path: Path) -> None:
    folder = checkouts.clone(origin, tmp_path / "clone")

    def refused(*arguments: str) -> str:
        done = checkouts.release(folder, *arguments)
        assert done.returncode == 1, done.stdout
        assert not (folder / "dist").exists()
        assert checkouts.git(folder, "diff", "--stat", "HEAD", "--", "chart/Chart.yaml") == ""
        return done.stderr

    assert "not a version" in refused("0.2")
    assert "below" in refused("0.0.1")
    assert "before the tag" in refused(VERSION, "--publish")
    (folder / "note.txt").write_text("x", encoding="utf-8")
    assert "note.txt" in refused(VERSION)
    log = folder / "CHANGELOG.md"
    text = log.read_text(encoding="utf-8")
    start, end = text.index("### Added"), text.index("## [0.1.0]")
    log.write_text(text[:start] + text[end:], encoding="utf-8")
    checkouts.commit(folder)
    assert "CHANGELOG.md" in refused(VERSION)


def test_placeholders_are_not_published(tmp_path: Path) -> None:
    folder = checkouts.made(tmp_path / "checkout", filled=False)
    done = checkouts.release(folder, VERSION)
    assert done.returncode == 0, done.stderr
    assert "to fill in before a tag: home: https://example.com" in done.stdout
    checkouts.commit(folder)
    done = checkouts.release(folder, VERSION, "--publish")
    assert done.returncode == 1
    for key in ("home", "icon", "sources", "fingerprint", "repositoryID"):
        assert f"{key}: " in done.stderr
