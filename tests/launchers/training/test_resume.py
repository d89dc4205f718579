"""A real run on CPU, resumed from a checkpoint that was made when each feature was a plugin."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers import PACKAGE
from launchers.config.rank import Place
from launchers.config.recipe import Recipe, parse
from launchers.flags import command_line, features
from launchers.metrics import rows
from launchers.preflight.gang_probes import free_port
from launchers.stages.export import without_own
from launchers.storage import checkpoint
from launchers.storage.checkpoint import Checkpoint
from scripts.demo import sources
from scripts.demo.sources import PLUGIN, Sources
from scripts.dev.flags import site_packages
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, STACK, TRAIN, needs_training

pytestmark = [needs_training, pytest.mark.timeout(600)]
PLACE = Place(rank=0, nodes=1, master_addr="127.0.0.1", master_port=29500, source="single")
OLD = [
    f"/opt/launchers/swift_{name}.py"
    for name in (
        *("phases_transformers", "seal_transformers", "metrics_transformers", "cpu", "tokens"),
        "search_path",
    )
]
OWN = [
    *("startup_transformers", "seal_transformers", "metrics_transformers", "cpu_checkpoint"),
    "tokens",
]


def recipe(steps: int) -> Recipe:
    """Return the demo's recipe for some steps, a checkpoint after each second one."""
    document: dict[str, Any] = yaml.safe_load(sources.VALUES.read_text(encoding="utf-8"))["recipe"]
    changes = {"external_plugins": str(PLUGIN), "max_steps": steps, "save_steps": 2}
    args = {**document["args"], **changes, "logging_steps": 1}
    return parse({**document, "model": "m", "dataset": ["d"], "args": args})


def train(home: Path, steps: int, *, attempt: int, resume: Checkpoint | None) -> str:
    """Train up to a step with the launcher's flags and environment; return the output."""
    of, output = recipe(steps), home / "checkpoints"
    inputs = command_line.Inputs(
        model=home / "model", mcore=None, datasets=(str(home / "pairs.jsonl"),), clone=None
    )
    flags = command_line.training_flags(of, inputs, output_dir=output, resume=resume, on_cpu=True)
    folder = home / "attempts" / str(attempt)
    folder.mkdir(parents=True)
    env = {
        **command_line.environment(os.environ, PLACE, nproc=1, package=PACKAGE),
        **features.environment(of, on_cpu=True),
        **{"DPO_RUN_FOLDER": str(home), "DPO_ATTEMPT_FOLDER": str(folder)},
        **{"CUDA_VISIBLE_DEVICES": "", "MODELSCOPE_CACHE": str(home / "cache")},
    }
    program = str(command_line.program(of, site_packages(TRAIN) / "swift"))
    words = command_line.torchrun(
        replace(PLACE, master_port=free_port()),
        nproc=1,
        log_dir=folder / "ranks",
        python=str(PYTHON),
        program=[program, *command_line.flatten({**flags, "report_to": "none"})],
    )
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def make_old(found: Checkpoint) -> None:
    """Give a checkpoint what it had before there was one plugin: its arguments and its seal."""
    path = found.path / "args.json"
    arguments = json.loads(path.read_text(encoding="utf-8"))
    assert arguments["external_plugins"] == [str(features.PLUGIN), str(PLUGIN)]
    path.write_text(json.dumps({**arguments, "external_plugins": [*OLD, str(PLUGIN)]}))
    (found.path / checkpoint.FEATURES).unlink()
    checkpoint.seal(found.path, found.step)


def test_a_run_goes_on_from_a_checkpoint_of_the_old_layout(tmp_path: Path) -> None:
    home = tmp_path / "ws" / "runs" / "one"
    found = Sources(root=home)
    home.mkdir(parents=True)
    sources.make_pairs(found)
    sources.make_model(found, PYTHON)
    lines = found.pairs.read_text().splitlines(keepends=True)
    found.pairs.write_text("".join(lines[:16]))

    said = train(home, 2, attempt=1, resume=None)
    assert f"features installed={','.join(OWN)}" in said
    first = checkpoint.newest(home / "checkpoints")
    assert first is not None and first.step == 2
    make_old(first)

    old = checkpoint.newest(home / "checkpoints")
    assert old is not None and old.step == 2
    said = train(home, 4, attempt=2, resume=old)
    assert said.count("features installed=") == 1
    last = checkpoint.newest(home / "checkpoints")
    assert last is not None and last.step == 4
    recorded = json.loads((last.path / checkpoint.FEATURES).read_text(encoding="utf-8"))
    assert recorded["features"] == OWN
    patches = recorded["patches"].values()
    assert [patch["state"] for patch in patches] == ["installed"] * (len(OWN) - 1)
    assert recorded["versions"]["ms-swift"] == STACK.swift
    patch = "patch startup-transformers effect=speed state=installed"
    assert f'{patch} sources="ms-swift {STACK.swift}"' in said
    written = rows.read(home / "metrics.jsonl")
    assert [(row.step, row.attempt) for row in written] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    phases = json.loads((home / "attempts" / "2" / "phases-0.json").read_text(encoding="utf-8"))
    assert {"imports", "arguments", "dataset", "trainer", "second_step"} <= set(phases)
    exported = json.loads(without_own((old.path / "args.json").read_text(encoding="utf-8")))
    assert exported["external_plugins"] == [str(PLUGIN)]
