"""A real run on CPU, resumed from a checkpoint that was made when each feature was a plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launchers.flags import features
from launchers.metrics import rows
from launchers.stages.export import without_own
from launchers.storage import checkpoint
from launchers.storage.checkpoint import Checkpoint
from scripts.demo.sources import PLUGIN
from tests.launchers.training import demo_run
from tests.launchers.training_environment import needs_training

pytestmark = [needs_training, pytest.mark.timeout(600)]
OLD = [
    f"/opt/launchers/swift_{name}.py"
    for name in (
        *("phases_transformers", "seal_transformers", "metrics_transformers", "cpu", "tokens"),
        "search_path",
    )
]
OWN = [
    *("startup_transformers", "seal_transformers", "metrics_transformers"),
    *("first_step_transformers", "nonfinite_transformers", "cpu_checkpoint", "tokens"),
]


def train(home: Path, steps: int, *, attempt: int, resume: Checkpoint | None) -> str:
    """Train up to a step, a checkpoint after each second one; return the output."""
    done = demo_run.train(
        home, {"max_steps": steps, "save_steps": 2}, attempt=attempt, resume=resume
    )
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
    home = demo_run.prepared(tmp_path, rows=16)
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
    assert recorded["versions"]["ms-swift"] == "4.4.1"
    assert (
        'patch startup-transformers effect=speed state=installed sources="ms-swift 4.4.1"' in said
    )
    written = rows.read(home / "metrics.jsonl")
    assert [(row.step, row.attempt) for row in written] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    phases = json.loads((home / "attempts" / "2" / "phases-0.json").read_text(encoding="utf-8"))
    assert {"imports", "arguments", "dataset", "trainer", "second_step"} <= set(phases)
    exported = json.loads(without_own((old.path / "args.json").read_text(encoding="utf-8")))
    assert exported["external_plugins"] == [str(PLUGIN)]
