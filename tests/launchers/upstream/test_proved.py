"""A proof of a patch holds for the sources and the launcher that it was made with."""

from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.proof import cases, prove
from launchers.upstream import proved, record, source
from launchers.upstream.patches import judge
from launchers.upstream.table import PATCHES

BY_FEATURE = {patch.feature: patch for patch in PATCHES}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace of an installation whose functions nobody has read."""
    monkeypatch.setenv("DPO_WORKSPACE", str(tmp_path))
    monkeypatch.setattr(source, "digest", lambda module, name: f"{module}:{name}")
    monkeypatch.setattr(source, "file_of", lambda module: Path("installed.py"))
    return tmp_path


def recorded(workspace: Path, feature: str) -> None:
    """Record a proof of a patch on what is installed."""
    patch = BY_FEATURE[feature]
    proved.write({patch.name: judge(patch, "").digests}, [], {"DPO_WORKSPACE": str(workspace)})


def test_a_proved_patch_is_installed_and_says_when_it_was_proved(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = BY_FEATURE["pair_weights"]
    assert judge(patch, "").state == "refused"
    recorded(workspace, "pair_weights")
    found = judge(patch, "")
    assert (found.state, found.is_installed, len(found.proved)) == ("proved", True, 10)
    assert f"proved on {found.proved}" in record.table([found])
    assert record.document([found])[patch.name]["proved"] == found.proved
    # a training process finds it by its run's folder
    monkeypatch.delenv("DPO_WORKSPACE")
    monkeypatch.setenv("DPO_RUN_FOLDER", str(workspace / "runs" / "one"))
    assert judge(patch, "").state == "proved"


@pytest.mark.parametrize(
    ("of", "name", "changed"),
    [
        (source, "digest", lambda module, name: f"another {module}:{name}"),
        (proved, "_own", lambda: "another launcher"),
    ],
)
def test_another_source_or_launcher_needs_another_proof(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, of: object, name: str, changed: object
) -> None:
    recorded(workspace, "pair_weights")
    monkeypatch.setattr(of, name, changed)
    assert judge(BY_FEATURE["pair_weights"], "").state == "refused"


def test_a_wrong_patch_loses_its_proof_and_ends_with_the_functions_that_moved(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differentials(folder: Path, env: object, features: list[str]) -> list[object]:
        return [(name, ["other packs"] if name == "packing" else []) for name in features]

    monkeypatch.setattr(prove, "differentials", differentials)
    said: list[str] = []
    with pytest.raises(LaunchError) as error:
        prove.prove({"DPO_WORKSPACE": str(workspace)}, said.append)
    assert (error.value.id, error.value.code) == ("patches-not-proved", Exit.CONFIG)
    [line] = [line for line in said if line.startswith("packing: ")]
    assert "other packs; moved: " in line and BY_FEATURE["packing"].functions[0].place in line
    assert judge(BY_FEATURE["packing"], "").state == "stepped aside"
    assert judge(BY_FEATURE["pair_weights"], "").state == "proved"


def test_what_only_a_gpu_runs_is_named_and_not_accepted(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def differentials(folder: Path, env: object, features: list[str]) -> list[object]:
        tried.extend(features)
        return []

    monkeypatch.setattr(prove, "differentials", differentials)
    said: list[str] = []
    prove.prove({"DPO_WORKSPACE": str(workspace)}, said.append)
    named = {line.partition(":")[0] for line in said if "not proved: needs a GPU" in line}
    on_gpu = {"narrow_moments", "fused_norm", "grouped_product", "chunked_adam"}
    assert named >= on_gpu and not named & set(tried)
    assert judge(BY_FEATURE["chunked_adam"], "").state == "refused"


def test_a_proof_needs_a_workspace() -> None:
    with pytest.raises(LaunchError) as error:
        prove.prove({}, print)
    assert error.value.code == Exit.CONFIG


def test_every_patch_has_a_differential_or_needs_a_gpu() -> None:
    without = set(BY_FEATURE) - set(cases.CASES)
    gpu = {p.feature for p in PATCHES if any(f.package == prove.GPU_ONLY for f in p.functions)}
    layers = {"merge_last", "stacked_adapters", "expert_order"}
    assert without - gpu == layers | {"pair_weights_transformers", "probe", "prompt_once"}
