"""Every cache's key has the identity of the code that fills the cache."""

import ast
import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from launchers import PACKAGE
from launchers.config.settings import from_env
from launchers.inputs import paths
from launchers.reference.fingerprint import Machine, facts_of, store_name
from launchers.run import kernel_cache
from launchers.stages import convert
from launchers.storage import marker
from launchers.storage.marker import Marker
from launchers.system.atomic_file import replace
from launchers.training.tokens import fingerprint
from launchers.upstream import code_identity
from tests.launchers.reference.references import MACHINE, arguments

PARTS = {"cache", "mcore", "reference", "tokens", "jit"}
"""Names of folders of the workspace in which caches are."""
KEYED = {
    "training/tokens/fingerprint.py: folder": "tokens",
    "training/tokens/make.py: make": "tokens",
    "reference/run_store.py: stores": "reference",
    "config/workspace.py: Workspace.mcore": "conversion",
    "stages/convert.py: convert": "conversion",
    "config/workspace.py: Workspace.jit": "kernels",
}
"""Functions that name or fill a cache, with the key that is tested below."""
NOT_OF_CODE = {
    "stages/clone.py: clone": "a commit of a server",
    "stages/download.py: _one": "files of a hub",
    "stages/local_files.py: copy": "files of the user",
    "upstream/proved.py: file": "each proof in it names its launcher and its sources",
    "stages/export.py: export": "one run's checkpoint, named by its identity",
}


def functions(tree: ast.AST, prefix: str = "") -> Any:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")


def is_builder(function: ast.FunctionDef) -> bool:
    """Return whether a function fills an output, or joins a path with a cache's folder."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "produce":
            return True
        is_join = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if is_join and getattr(node.right, "value", "") in PARTS:  # type: ignore[attr-defined]
            return True
    return False


def test_every_builder_of_a_key_is_listed() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name, node in functions(ast.parse(path.read_text(encoding="utf-8")))
        if is_builder(node)
    }
    assert found == {*KEYED, *NOT_OF_CODE}


def settings(home: Path, **env: str) -> Any:
    given = {"DPO_RUN": "r", "DPO_WORKSPACE": str(home), "NODE_RANK": "0", "NNODES": "1"}
    return from_env({**given, "MASTER_ADDR": "h", **env})


def tokens(home: Path) -> object:
    flags, model = {"max_length": 1}, home / "model"
    versions = {"pip": "1"}
    return fingerprint.inputs(flags=flags, datasets=[], plugins=[], model=model, versions=versions)


def reference(home: Path) -> object:
    return store_name(facts_of(arguments(home), home, Machine(versions=MACHINE.versions)))


def conversion(home: Path) -> object:
    return convert._wanted(settings(home).launch, home / "mcore" / "m", {}, {})


def kernels(home: Path) -> object:
    given = kernel_cache.variables(home, {}, run="r", warm=True, cores=1, nproc=1)
    return kernel_cache.PACKAGES, code_identity.installed(["pip"]), given["TORCH_EXTENSIONS_DIR"]


KEYS: dict[str, Callable[[Path], object]] = {"tokens": tokens, "reference": reference}
KEYS |= {"conversion": conversion, "kernels": kernels}


@pytest.mark.parametrize("key", sorted(set(KEYED.values())))
def test_other_code_gives_another_key(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, code = tmp_path / "w", tmp_path / "code"
    (home / "model").mkdir(parents=True)
    code.mkdir()
    monkeypatch.syspath_prepend(str(code))
    seen = [KEYS[key](home), KEYS[key](home)]
    assert seen[0] == seen[1]
    (code / "module.py").write_text("1")
    seen.append(KEYS[key](home))
    assert seen[2] != seen[1]


@pytest.mark.parametrize("key", ["tokens", "reference", "kernels"])
def test_another_launcher_gives_another_key(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    before = KEYS[key](tmp_path)
    monkeypatch.setattr("launchers.version.own_digest", lambda given: "other")
    assert KEYS[key](tmp_path) != before


def test_code_is_known_by_its_contents_and_not_by_its_place(tmp_path: Path) -> None:
    found = []
    for place in ("a", "b"):
        clone = tmp_path / place / "code" / "dpo@main-1"
        for name in ("plugins/pairs.py", "src/rows.py", ".git/hooks/x.py", "data.jsonl"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_text(place if name in (".git/hooks/x.py", "data.jsonl") else "1")
        (clone / "src" / "loop").symlink_to(clone)
        found.append([clone / "plugins" / "pairs.py"])
    one, two = (code_identity.identity((), plugins=each) for each in found)
    assert one == two
    (clone / "src" / "rows.py").write_text("2")
    assert code_identity.identity((), plugins=found[1]) != one


def test_code_that_cannot_be_read_is_no_missing_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"PYTHONPATH": str(tmp_path / "none")}
    assert code_identity.identity((), env=missing)
    error = OSError(5, "Input/output error")
    monkeypatch.setattr("os.scandir", Mock(side_effect=error))
    with pytest.raises(OSError, match="Input/output error"):
        code_identity.identity((), env={"PYTHONPATH": str(tmp_path)})


def test_builds_of_one_version_differ_and_an_editable_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    info = site / "fork-1.0.dist-info"
    for folder in (source, info):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fork\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    seen = []
    for record in ("a.py,sha256=1,1", "a.py,sha256=2,1"):
        (info / "RECORD").write_text(record)
        seen.append(code_identity.identity(["fork"]))
    editable = {"url": f"file://{source}", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(editable))
    for text in ("1", "2"):
        (source / "a.py").write_text(text)
        seen.append(code_identity.identity(["fork"]))
    assert len({str(each) for each in seen}) == 4
    assert metadata.version("fork") == "1.0"


def test_a_run_keeps_the_conversion_that_it_began_with(tmp_path: Path) -> None:
    """One of an older launcher, without the converter's code, is that of the runs that have it."""
    of, given = settings(tmp_path), {"model": "d", "flags": ["f"]}
    path = of.launch.work.mcore("m")
    path.mkdir(parents=True)
    made = Marker(inputs=given, manifest={})
    marker.write(path, made)
    assert "code" in convert._wanted(of.launch, path, given, {})
    assert paths._conversion(of, "m").startswith("m-")
    of.launch.work.home.mkdir(parents=True)
    replace(of.launch.work.inputs, f'{{"convert m": "{marker.digest(made)}"}}')
    assert convert._wanted(of.launch, path, given, {}) == given
    assert paths._conversion(of, "m") == "m"
    assert paths._conversion(of, "other") != "m"
    assert "code" in convert._wanted(of.launch, path, {**given, "flags": []}, {})


def test_another_converter_has_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {paths._conversion(settings(tmp_path), "m")}
    monkeypatch.setattr(code_identity, "installed", lambda names: {"mcore-bridge": "1.6.5"})
    names.add(paths._conversion(settings(tmp_path), "m"))
    code = {"DPO_CODE_URL": "https://h/c.git", "DPO_CODE_REF": "v1"}
    names.add(paths._conversion(settings(tmp_path, **code, DPO_CODE_PYTHONPATH="src"), "m"))
    assert len(names) == 3
