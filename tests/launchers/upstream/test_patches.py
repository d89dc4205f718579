"""Each patch is declared, its digests are those of the released sources, and it guards them."""

import ast
import hashlib
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from launchers import PACKAGE
from launchers.exits import Exit
from launchers.flags.features import FEATURES, Feature
from launchers.logs import LOG
from launchers.upstream import source
from launchers.upstream.patches import ACCEPT, SHORT, SOURCES, Function, Patch, judge
from launchers.upstream.table import PATCHES
from tests.launchers.upstream import releases
from tests.launchers.upstream.releases import needs_releases

REPLACES_NOTHING = {"cpu_checkpoint", "heartbeat", "swanlab", "wandb", "zero_gradient"}
"""Features that use an interface of torch or transformers made for it; the heartbeat times torch's
data loader, and gradients of 0 are judged by the callback ``nonfinite``."""
NOT_NEEDED = {("checked-read", "image"), ("checked-read", "last")}
"""Patches of errors that a release does not have."""
BY_FEATURE = {patch.feature: patch for patch in PATCHES}


def test_every_feature_declares_what_it_replaces() -> None:
    assert {feature.name for feature in FEATURES} - REPLACES_NOTHING == set(BY_FEATURE)
    assert len(BY_FEATURE) == len(PATCHES)


def assigned(feature: Feature) -> Iterator[str]:
    """Yield the attributes that a feature's ``install`` sets, of upstream's classes and modules."""
    path = PACKAGE / f"{feature.module.replace('.', '/')}.py"
    for function in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(function, ast.FunctionDef) and function.name == feature.function:
            for node in ast.walk(function):
                targets = node.targets if isinstance(node, ast.Assign) else []
                yield from (each.attr for each in targets if isinstance(each, ast.Attribute))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_function_that_an_installation_replaces_is_declared(feature: Feature) -> None:
    patch = BY_FEATURE.get(feature.name)
    declared = {word for f in (patch.functions if patch else ()) for word in f.name.split(".")}
    assert set(assigned(feature)) <= declared


def test_the_walks_over_modules_see_assignments_and_private_calls() -> None:
    some = {"step", "load_weights", "get_grad_norm_fp32", "_load_checkpoint", "token_combine"}
    assert {name for feature in FEATURES for name in assigned(feature)} >= some
    assert {name for f in FEATURES for name in private_calls(f)} >= {"_save_checkpoint"}


def test_sources_and_patches_name_the_same_functions() -> None:
    read = {(p, m, n) for p, ms in SOURCES.items() for m, ns in ms.items() for n in ns}
    assert {(f.package, f.module, f.name) for patch in PATCHES for f in patch.functions} == read


def private_calls(feature: Feature) -> Iterator[str]:
    path = PACKAGE / f"{feature.module.replace('.', '/')}.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = ast.unparse(node.func.value), node.func.attr
            if name.startswith("_") and owner in ("trainer", "self.trainer"):
                yield name


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_private_method_of_the_trainer_that_is_called_is_declared(feature: Feature) -> None:
    patch = BY_FEATURE.get(feature.name)
    declared = {f.name.rpartition(".")[2] for f in (patch.functions if patch else ())}
    assert set(private_calls(feature)) <= declared


@needs_releases
@pytest.mark.parametrize(
    ("package", "version"), [(package, version) for package, version, _ in releases.ROOTS]
)
def test_digests_are_those_of_the_released_sources(package: str, version: str) -> None:
    for module, name in releases.functions(package):
        digests = source.digests(releases.path(package, module, version))
        read = SOURCES[package][module][name]
        assert digests.get(name, "")[:SHORT] in read, f"{module}:{name}"


def lay(folder: Path, patch: Patch, version: str, edits: Iterable[Function] = ()) -> None:
    """Copy the files of a patch's functions; change the source of some functions."""
    for module, package in {f.module: f.package for f in patch.functions}.items():
        path = releases.path(package, module, version)
        target = folder / path.relative_to(releases.root(package, version))
        text = path.read_text(encoding="utf-8")
        for edit in edits:
            if edit.module == module:
                text = releases.edited(text, edit.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        for above in target.relative_to(folder).parents[:-1]:
            (folder / above / "__init__.py").touch()


def has(function: Function, version: str) -> bool:
    path = releases.path(function.package, function.module, version)
    return function.name in source.digests(path)


@needs_releases
@pytest.mark.parametrize("version", ["first", "image", "last"])
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_released_sources_are_known_and_edited_ones_are_not(
    patch: Patch, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # some are missing in one of the releases, and known to be
    edits = tuple(f for f in patch.functions if has(f, version))
    lay(tmp_path / "released", patch, version)
    lay(tmp_path / "edited", patch, version, edits)
    with monkeypatch.context() as context:
        context.syspath_prepend(tmp_path / "released")
        known = judge(patch, "")
    with monkeypatch.context() as context:
        context.syspath_prepend(tmp_path / "edited")
        found, accepted = judge(patch, "other"), judge(patch, f"other, {patch.name}")
        error = found.error()
    is_needed = (patch.name, version) not in NOT_NEEDED
    assert (known.state, known.unknown) == ("installed" if is_needed else "not needed", ())
    assert known.is_installed == is_needed
    packages = {word.split()[0] for word in known.releases.split("; ")}
    assert packages == {f.package for f in patch.functions}
    assert found.unknown == edits
    assert found.state == ("stepped aside" if patch.effect == "speed" else "refused")
    assert not found.is_installed
    assert (accepted.state, accepted.is_installed) == ("accepted", True)
    assert (error.code, error.id) == (Exit.CONFIG, "patch-unknown-source")
    for word in (f"patch {patch.name} ", edits[0].place, edits[0].package):
        assert word in error.cause
    assert f"extraEnv.{ACCEPT}: {patch.name} " in error.remedy
    assert f"use an image with {edits[0].package} " in error.remedy


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_package_that_is_not_installed_was_not_read(
    patch: Patch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    importlib.invalidate_caches()
    found = judge(patch, "")
    assert found.unknown == patch.functions
    assert not found.is_installed


def test_a_known_function_that_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "digest", lambda *_: "")
    assert "it has no such function" in judge(BY_FEATURE["rank_order"], "").error().cause
    remedy = judge(BY_FEATURE["reference"], "").error().remedy
    assert "or set recipe.reference: online, or set" in remedy


def test_a_patch_left_out_or_accepted_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOG, "propagate", True)
    monkeypatch.setattr(source, "digest", lambda *_: "0" * 64)
    judge(BY_FEATURE["pack_lengths"], "").log()
    judge(BY_FEATURE["chunked_adam"], "chunked_adam").log()  # as features are spelled
    aside, accepted = caplog.messages
    assert aside.startswith("patch pack-lengths stepped aside unknown=swift.megatron.utils.utils:")
    assert accepted.startswith("patch chunked-adam accepted unknown=transformer_engine.")


def test_a_digest_is_that_of_inspects_source() -> None:
    for function in (inspect.getsource, inspect.Signature.bind):
        text = inspect.getsource(function)
        expected = hashlib.sha256(text.encode()).hexdigest()
        assert source.digest("inspect", function.__qualname__) == expected
