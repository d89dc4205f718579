"""The launcher's archive: equal sources give equal bytes, and the pods' digest is theirs."""

import ast
import io
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest
import yaml

from launchers.version import digest, sources
from scripts import archive
from tests.launchers.test_layers import TRAINING, layer, modules

NAMES = [f"python3.{minor}" for minor in range(11, 15)]
FEW = ("__init__.py", "__main__.py", "exits.py", "version.py", "metrics", "stop")
"""Of ``launchers``, for both archives; to pack all of it takes a second."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what an archive is made from and by: a part of ``launchers``."""
    folder = tmp_path / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("scripts", *(f"launchers/{each}" for each in FEW)):
        held = archive.ROOT / name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if held.is_dir():
            shutil.copytree(held, folder / name, ignore=unwanted)
        else:
            shutil.copy(held, folder / name)
    (folder / "chart" / archive.PLACES[0]).parent.mkdir(parents=True)
    shutil.copy(archive.ROOT / "chart" / "values.yaml", folder / "chart")
    return folder


def made(checkout: Path) -> tuple[dict[str, bytes], str]:
    chart = checkout / "chart"
    text = (chart / archive.DIGEST).read_text(encoding="ascii").strip()
    places = zip(archive.ARCHIVES, archive.PLACES, strict=True)
    return {name: (chart / place).read_bytes() for name, place in places}, text


def unpack(packed: dict[str, bytes], folder: Path) -> list[tarfile.TarInfo]:
    members = []
    for content in packed.values():
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            tar.extractall(folder, filter="data")
            members += tar.getmembers()
    return members


@pytest.mark.parametrize("python", [sys.executable, *filter(None, map(shutil.which, NAMES))])
def test_times_umask_folder_and_python_change_no_byte(checkout: Path, python: str) -> None:
    command = [python, "-I", "-c", "import bz2, sys; sys.exit(sys.version_info < (3, 11))"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("of some managers of Pythons a name alone does not work")
    expected = archive.archives(sources(checkout / "launchers"))
    for number, path in enumerate(sorted((checkout / "launchers").rglob("*.py"))):
        os.utime(path, (number, number))
        path.chmod(0o600)
    env = {"PYTHONPATH": str(checkout), "TZ": "Asia/Kolkata", "LC_ALL": "C"}
    command = [python, "-m", "scripts.archive"]
    subprocess.run(command, cwd=checkout / "chart", env=env, umask=0o077, check=True)
    packed, seal = made(checkout)
    assert packed == expected
    assert seal == digest(sources(checkout / "launchers"))
    for name in (*archive.PLACES, archive.DIGEST):
        assert (checkout / "chart" / name).stat().st_mode & 0o777 == 0o644
    assert sorted(p.name for p in checkout.iterdir()) == ["chart", "launchers", "scripts"]


def test_it_holds_plain_files_and_nothing_of_their_owner(checkout: Path, tmp_path: Path) -> None:
    assert archive.build(checkout)
    packed = made(checkout)[0]
    members = unpack({"launchers.tar.bz2": packed["launchers.tar.bz2"]}, tmp_path)
    assert [m.name for m in members] == sorted(m.name for m in members)
    assert "launchers/__main__.py" in {m.name for m in members}
    second = tuple(f"launchers/{package}" for package in archive.SECOND)
    assert not [m.name for m in members if m.name.startswith(second)]
    owners = {(m.isfile(), m.mode, m.uid, m.gid, m.uname, m.gname) for m in members}
    assert owners == {(True, 0o644, 0, 0, "", "")}
    others = unpack({"training.tar.bz2": packed["training.tar.bz2"]}, tmp_path)
    assert {m.name.startswith(second) for m in others} == {True}


def test_a_changed_file_of_the_same_size_has_another_time() -> None:
    """Otherwise Python would run bytecode of the old file that it finds for the new one."""
    times = []
    for source in (b"A = 1", b"A = 2"):
        with tarfile.open(fileobj=io.BytesIO(archive.pack({"a.py": source}))) as tar:
            times += [member.mtime for member in tar.getmembers()]
    assert times[0] != times[1] and max(times) < 2**31


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pod")
    unpack(archive.archives(sources(archive.ROOT / "launchers")), folder)
    return folder


def test_what_is_unpacked_is_the_code_of_the_checkout(pod: Path) -> None:
    unpacked = sources(pod / "launchers")
    written = sources(archive.ROOT / "launchers")
    assert list(unpacked) == list(written)
    for name, source in written.items():
        assert source.count(b"\n") == unpacked[name].count(b"\n"), name
        read = yaml.safe_load if name.endswith(".yaml") else compiled
        assert read(source) == read(unpacked[name]), name


def test_all_modules_but_those_of_training_are_imported_from_it(pod: Path) -> None:
    program = """
        import importlib, sys
        for name in sys.argv[1:]:
            print(importlib.import_module(name).__name__)
    """
    names = [name for name in modules() if layer(name) != TRAINING and "__main__" not in name]
    command = [sys.executable, "-P", "-c", textwrap.dedent(program), *names]
    environment = {"PYTHONPATH": str(pod)}
    done = subprocess.run(command, cwd=pod, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "launchers.run.run\n" in done.stdout


def compiled(source: bytes) -> str:
    """Return a module's syntax with its line numbers, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant("")
    lines = [(type(n).__name__, n.lineno) for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    return ast.dump(tree) + str(lines)


def test_it_is_made_again_when_a_source_changes_and_only_then(checkout: Path) -> None:
    assert archive.build(checkout)
    assert not archive.build(checkout)
    before = made(checkout)
    for name in ("__pycache__", "more"):
        (checkout / "launchers" / name).mkdir()
    for name in ("__pycache__/run.py", "README.md"):
        (checkout / "launchers" / name).write_text("")
    assert not archive.build(checkout)
    new = checkout / "launchers" / "more" / "one.py"
    new.write_text("")
    assert archive.build(checkout) and made(checkout)[1] != before[1]
    new.unlink()
    assert archive.build(checkout) and made(checkout) == before
    for place in archive.PLACES:
        (checkout / "chart" / place).unlink()
        assert archive.build(checkout) and made(checkout) == before
