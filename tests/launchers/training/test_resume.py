"""Real runs on CPU, resumed in the second epoch and from a checkpoint of an old launcher."""

import json
import re
import shutil
from pathlib import Path

from launchers.flags import external_plugins
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.stages.export import without_own
from launchers.storage import checkpoint
from launchers.system.atomic_file import read_object
from scripts.demo.sources import PLUGIN
from tests.launchers.training import demo_run
from tests.launchers.training_environment import STACK, needs_training

pytestmark = needs_training
OWN = """
startup_transformers heartbeat seal_transformers metrics_transformers epoch_order partial_window
first_step_transformers ledger_transformers nonfinite_transformers zero_gradient probe
stop_transformers cpu_checkpoint tokens
"""
WITHOUT_PATCH = 3
"""Features among them that replace nothing of upstream."""
CUT, STEPS = 7, 10
"""The step of the checkpoint, and all of two epochs of 9 microbatches in windows of 2."""


def trained(home: Path) -> tuple[list[tuple[int, float | None, float | None]], bytes]:
    """Return step, loss and gradient norm after the cut, and the weights of the last checkpoint."""
    found = [
        (row.step, row.values["loss"], row.grad_norm)
        for row in reader.read(home / "metrics.jsonl", Row)
        if row.step > CUT
    ]
    return found, (demo_run.saved(home, STEPS).path / "model.safetensors").read_bytes()


def test_a_run_resumes_from_a_checkpoint_without_a_record_of_features(tmp_path: Path) -> None:
    home = demo_run.prepared(tmp_path, rows=16)
    steps = {"save_steps": 2}
    said = demo_run.trained(home, steps | {"max_steps": 2}, attempt=1)
    assert f"features installed={','.join(OWN.split())}" in said
    old = demo_run.saved(home, 2)
    arguments = json.loads((old.path / "args.json").read_text(encoding="utf-8"))
    assert arguments["external_plugins"] == [str(external_plugins.PLUGIN), str(PLUGIN)]
    (old.path / checkpoint.FEATURES).unlink()
    checkpoint.seal(old.path, old.step)

    said = demo_run.trained(home, steps | {"max_steps": 4}, attempt=2, resume=old)
    assert said.count("features installed=") == 1
    last = demo_run.saved(home, 4)
    recorded = json.loads((last.path / checkpoint.FEATURES).read_text(encoding="utf-8"))
    assert recorded["features"] == OWN.split()
    states = [patch["state"] for patch in recorded["patches"].values()]
    assert states == ["installed"] * (len(OWN.split()) - WITHOUT_PATCH)
    assert recorded["versions"]["ms-swift"] == STACK.swift
    patch = "patch startup-transformers effect=speed state=installed"
    [sources, *_] = re.findall(rf'{patch} sources="ms-swift (.*?)"', said)
    assert STACK.swift in sources.split(", ")
    written = reader.read(home / "metrics.jsonl", Row)
    assert [(row.step, row.attempt) for row in written] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    phases = json.loads((home / "attempts" / "2" / "phases-0.json").read_text(encoding="utf-8"))
    assert {"imports", "arguments", "dataset", "trainer", "second_step"} <= set(phases)
    exported = json.loads(without_own(read_object(old.path / "args.json")))
    assert exported["external_plugins"] == [str(PLUGIN)]


def test_a_resume_in_the_second_epoch_trains_as_if_undisturbed(tmp_path: Path) -> None:
    home = demo_run.prepared(tmp_path, rows=18)
    changes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    changes |= {"max_steps": STEPS, "save_steps": CUT}
    demo_run.trained(home, changes, attempt=1)
    undisturbed = trained(home)
    shutil.rmtree(home / "checkpoints" / f"checkpoint-{STEPS}")
    demo_run.trained(home, changes, attempt=2, resume=demo_run.saved(home, CUT))
    assert [row.attempt for row in reader.read(home / "metrics.jsonl", Row)] == [1] * CUT + [2] * 3
    assert trained(home) == undisturbed


def test_a_resume_from_a_checkpoint_by_time_trains_as_if_undisturbed(tmp_path: Path) -> None:
    home, steps = demo_run.prepared(tmp_path, rows=18), 40
    changes = {"max_steps": steps, "save_steps": None, "per_device_train_batch_size": 2}
    changes |= {"save_total_limit": steps}
    demo_run.trained(home, changes, attempt=1, saveMinutes=0.004)
    saved = checkpoint.complete(home / "checkpoints")
    losses = {row.step: row.values["loss"] for row in reader.read(home / "metrics.jsonl", Row)}
    first = min(saved, key=lambda each: each.step)
    assert 1 <= first.step < steps, "no save within 40 steps, of 0.24 s"
    for other in saved:
        if other.step != first.step:
            shutil.rmtree(home / "checkpoints" / f"checkpoint-{other.step}")
    demo_run.trained(home, changes, attempt=2, resume=first, saveMinutes=0)
    again = reader.read(home / "metrics.jsonl", Row)
    assert [row.attempt for row in again] == [1] * first.step + [2] * (steps - first.step)
    assert {row.step: row.values["loss"] for row in again} == losses
