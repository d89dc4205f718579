"""One stage on its own, as a replicated job of ``stages.placement: jobs`` runs it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.config.settings import from_env
from launchers.inputs import preconditions
from launchers.inputs.paths import inputs_of
from launchers.run import prepare
from launchers.run.prepare import acts
from launchers.run.stage_command import run_stage
from tests.launchers.inputs.test_preconditions import KNOWN
from tests.launchers.recipes import plain
from tests.launchers.sources import get, local_model


def test_a_stages_pod_has_no_gpu_and_does_not_judge_how_the_gang_shares_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preconditions, "known_flags", lambda recipe: KNOWN)
    recipe = plain(tensor_model_parallel_size="4")
    settings = from_env({"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_GPUS_PER_NODE": "0"})
    run_stage("clone", settings, recipe, {})
    progress = json.loads(settings.launch.work.progress.read_text())
    assert progress["stages"]["clone"]["state"] == "skipped"


def test_a_conversion_knows_the_model_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = local_model(tmp_path / "library" / "m")
    there.chmod(0o555)
    known = {"DPO_LIBRARIES": str(there.parent), "DPO_WORKSPACE": str(tmp_path / "w")}
    settings = from_env({"DPO_RUN": "r", **known})
    recipe = replace(plain(), model=f"file://{there}")
    [model] = get(recipe.model, settings.launch.work)
    seen = []
    monkeypatch.setattr(prepare, "convert", lambda *_, model_digest, env: seen.append(model_digest))
    acts(settings, recipe, inputs_of(settings, recipe), {})["convert"]()
    assert seen == [model.digest] and model.digest
