"""Seconds of the end of a run, from the files that it leaves or removes."""

import json
import os
import shutil
from pathlib import Path

from launchers.metrics import rows as metrics
from launchers.metrics.rows import Row
from launchers.storage import marker
from launchers.storage.checkpoint import COMPLETE
from tests.bench.launcher.ending import Seals, ending


def sealed(folder: Path, seal: str, when: float, *weights: float) -> None:
    """Write a folder with its seal and its safetensors, of these Unix times."""
    folder.mkdir(parents=True)
    for number, time in enumerate(weights):
        file = folder / f"model-{number}.safetensors"
        file.touch()
        os.utime(file, (time, time))
    (folder / seal).touch()
    os.utime(folder / seal, (when, when))


def test_the_end_of_a_run_that_removes_its_files_is_known(tmp_path: Path) -> None:
    rows = [
        Row(step=step, total=4, attempt=1, time=100.0 + step, seconds=1.0, other_seconds=other)
        for step, other in ((2, 0.1), (3, 0.4), (4, 0.1))
    ]
    held = {"step": 4, "total": 4, "attempt": 1, "time": 110.0, "eval_seconds": 6.0}
    lines = [*map(metrics.line, rows), json.dumps({**held, "eval_loss": 0.7})]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{each}\n" for each in lines))
    (tmp_path / "progress.json").write_text('{"stages": {"export": {"seconds": 3.0}}}')
    seals, checkpoints = Seals(tmp_path), tmp_path / "checkpoints"
    sealed(checkpoints / "checkpoint-2", COMPLETE, 103.0)
    seals.look()
    sealed(checkpoints / "checkpoint-4", COMPLETE, 131.0, 112.0)
    sealed(checkpoints / "checkpoint-4-merged", COMPLETE, 130.0, 115.0, 128.0)
    sealed(tmp_path / "export", marker.NAME, 140.0, 115.0)
    seals.look()
    shutil.rmtree(checkpoints)
    seals.look()
    found = ending(tmp_path, seals.seen)
    assert found["stops_s"] == {"1-2": 0.4}
    assert (found["saved_s"], found["merged_s"], found["exported_s"]) == (21.0, 18.0, 30.0)
    assert found["stages"] == {"export": {"seconds": 3.0}}


def test_a_run_without_a_step_has_no_end(tmp_path: Path) -> None:
    assert ending(tmp_path, {})["saved_s"] is None
