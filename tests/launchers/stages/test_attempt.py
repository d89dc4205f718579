import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from launchers.config.recipe import Recipe
from launchers.config.settings import Code, from_env
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.inputs.paths import clone_path
from launchers.logs import LOG
from launchers.run import rehearse
from launchers.stages.attempt import (
    check_versions,
    decide_start,
    keep_identity,
    next_attempt,
    settle,
)
from launchers.storage import checkpoint, node_disk
from launchers.storage.checkpoint import FEATURES, Checkpoint
from launchers.upstream import record, source
from launchers.upstream import table as patch_table
from tests.launchers.models import load_model_config
from tests.launchers.recipes import plain
from tests.launchers.stages.checkpoints import sealed

RECIPE = plain()
CODE = Code(url="https://example.org/a.git", ref="main", secret=None)


def test_attempts_count_up_independently_of_kubernetes(work: Workspace) -> None:
    assert next_attempt(work).number == 1
    for number in ("1", "2", "10", "notes"):
        (work.attempts / number).mkdir(parents=True)
    assert next_attempt(work).number == 11


def test_inputs_may_change_until_there_is_a_checkpoint(work: Workspace) -> None:
    keep_identity(work, {"recipe": "a", "model": "m"})
    keep_identity(work, {"recipe": "b", "model": "m"})
    sealed(work, 5)
    keep_identity(work, {"recipe": "b", "model": "m"})
    with pytest.raises(LaunchError, match="checkpoints of different model, recipe") as no:
        keep_identity(work, {"recipe": "c"})
    assert no.value.code == Exit.CONFIG


def test_checkpoints_of_unknown_inputs_are_not_resumed(work: Workspace) -> None:
    sealed(work, 5)
    with pytest.raises(LaunchError, match="checkpoints of different recipe"):
        keep_identity(work, {"recipe": "a"})


@pytest.mark.parametrize("content", [b"", b'{"recipe"', b"[1]", bytes(40)])
def test_inputs_that_are_torn_are_no_other_inputs(work: Workspace, content: bytes) -> None:
    sealed(work, 5)
    work.inputs.write_bytes(content)
    with pytest.raises(LaunchError) as unknown:
        keep_identity(work, {"recipe": "a"})
    assert (unknown.value.code, unknown.value.id) == (Exit.IO, "file-torn")
    assert work.inputs.read_bytes() == content


def newest(work: Workspace) -> Checkpoint:
    found = checkpoint.newest(work.checkpoints)
    assert found is not None
    return found


def moved(work: Workspace) -> object:
    return newest(Workspace.of(work.home.rename(work.home.with_name("b"))))


@pytest.mark.parametrize(
    ("name", "decide"),
    [
        ("inputs.json", newest),
        ("inputs.json", lambda work: clone_path(CODE, work)),
        ("attempts/1/start.json", moved),
        (
            f"checkpoints/checkpoint-5/{FEATURES}",
            lambda work: check_versions(newest(work), RECIPE, ()),
        ),
        (
            f"checkpoints/checkpoint-9/{checkpoint.PENDING}",
            lambda work: list(node_disk.pending(work.checkpoints)),
        ),
        (
            "progress.json",
            lambda work: rehearse.begin(SimpleNamespace(work=work, rehearse=True), "d"),  # type: ignore[arg-type]
        ),
    ],
)
def test_a_torn_file_that_decides_is_no_missing_one(
    name: str, decide: Callable[[Workspace], object], work: Workspace
) -> None:
    keep_identity(work, {"recipe": "a"})
    sealed(work, 5)
    (work.home / name).parent.mkdir(parents=True, exist_ok=True)
    (work.home / name).write_text("{")
    with pytest.raises(LaunchError) as unknown:
        decide(work)
    assert unknown.value.id == "file-torn" and [*work.root.glob(f"runs/*/{name}")]


@pytest.fixture
def saved(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Save a checkpoint with a record; return the installed versions, which a test may change."""
    installed = dict.fromkeys(record.PACKAGES, "1.0")
    monkeypatch.setattr(source, "version", lambda package: installed[package])
    document = {"patches": {}, "versions": record.versions("abc")}
    sealed(work, 5, {"model.safetensors": "w", FEATURES: json.dumps(document)})
    return installed


def decide(work: Workspace, *, allow: bool = False) -> int | None:
    """Decide about a start of the run; return the step it resumes from."""
    env = {"DPO_WORKSPACE": str(work.root), "DPO_RUN": work.run, "DPO_GPUS_PER_NODE": "0"}
    recipe = replace(RECIPE, allow_version_change=allow)
    resume = decide_start(from_env(env), recipe, {"model": "m"}).attempt.resume
    return None if resume is None else resume.step


def identify(work: Workspace) -> None:
    work.inputs.write_text(json.dumps({"model": "m", "recipe": RECIPE.digest}))


def test_a_resume_under_other_versions_is_refused_by_name(
    work: Workspace,
    saved: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    identify(work)
    assert decide(work) == 5
    saved.update({"torch": "1.1", "transformer-engine": ""})
    with pytest.raises(LaunchError) as refusal:
        decide(work)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, "resume-versions")
    assert refusal.value.cause == (
        "checkpoint-5 was saved with other software: transformer-engine 1.0, now (none); "
        "torch 1.0, now 1.1"
    )
    assert "recipe.allowVersionChange: true" in refusal.value.remedy
    monkeypatch.setattr(LOG, "propagate", True)
    assert decide(work, allow=True) == 5
    assert "resume versions changed checkpoint=checkpoint-5" in caplog.text


def test_a_checkpoint_without_a_record_resumes_with_a_warning(
    work: Workspace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOG, "propagate", True)
    sealed(work, 5)
    identify(work)
    assert decide(work) == 5
    assert "resume versions unknown checkpoint=checkpoint-5" in caplog.text


def test_a_run_begins_with_prompts_once_where_its_packages_were_measured(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"DPO_WORKSPACE": str(work.root), "DPO_RUN": work.run, "DPO_GPUS_PER_NODE": "4"}
    recipe = plain(packing=True, recompute_granularity="full", attention_backend="auto")
    recipe = replace(recipe, reference="precomputed")
    model = load_model_config("Qwen3-30B-A3B")
    versions = {"ms-swift": "4.5.3", "transformer-engine": "2.16.1+cu13"}
    monkeypatch.setattr(source, "version", lambda package: versions.get(package, ""))
    state = SimpleNamespace(is_installed=True)
    monkeypatch.setattr(patch_table, "judge", lambda *_: state)

    def decided(given: Recipe = recipe) -> tuple[bool | None, str]:
        found, said = settle(from_env(env), given, model, "h100-80g")
        return found.prompt_once, said

    assert decided() == (True, "computed once")
    env |= {"DPO_CODE_URL": "u", "DPO_CODE_REF": "r", "DPO_CODE_PYTHONPATH": "src"}
    assert decided() == (False, "computed twice: not measured with packages of the clone")
    del env["DPO_CODE_PYTHONPATH"]
    for package, seen in (("transformer-engine", "2.12.0"), ("flash-attn-3", "3.0.0")):
        with monkeypatch.context() as patch:
            patch.setitem(versions, package, seen)
            assert decided() == (False, f"computed twice: not measured with {package} {seen}")
    assert decided(replace(recipe, prompt_once=False)) == (False, "")
    assert decided(replace(recipe, task="sft")) == (False, "")
    twice = recipe.settled[0]  # as all runs before there was ``auto``
    keep_identity(work, {"recipe": twice.identity})
    assert decided() == (False, "computed twice: as the run began")
    assert decided(replace(recipe, prompt_once=True)) == (True, "")
