"""The demo's recipe trained for real on CPU, with the launcher's flags and environment."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from launchers import PACKAGE
from launchers.config.rank import Place
from launchers.config.recipe import parse
from launchers.flags import command_line, features
from launchers.preflight.gang_probes import free_port
from launchers.storage.checkpoint import Checkpoint, newest
from scripts.demo import sources
from scripts.demo.sources import PLUGIN, Sources
from scripts.dev.flags import site_packages
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import TRAIN

PLACE = Place(rank=0, nodes=1, master_addr="127.0.0.1", master_port=29500, source="single")


def sources_of(root: Path, *, rows: int) -> Sources:
    """Make the demo's model and some of its pairs in a folder."""
    made = Sources(root=root)
    sources.make_pairs(made)
    sources.make_model(made, warm.python())
    lines = made.pairs.read_text().splitlines(keepends=True)
    made.pairs.write_text("".join(lines[:rows]))
    return made


def prepared(folder: Path, *, rows: int) -> Path:
    """Make the folder of a run, with the model and its pairs."""
    home = folder / "ws" / "runs" / "one"
    home.mkdir(parents=True)
    return sources_of(home, rows=rows).root


def trained(home: Path, changes: Mapping[str, Any], **given: Any) -> str:
    """Train to a good end; return what was printed."""
    done = train(home, changes, **given)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def saved(home: Path, step: int) -> Checkpoint:
    """Return the newest checkpoint, which must be that of a step."""
    found = newest(home / "checkpoints")
    assert found is not None and found.step == step
    return found


def train(
    home: Path,
    changes: Mapping[str, Any],
    *,
    attempt: int,
    resume: Checkpoint | None = None,
    plugins: tuple[Path, ...] = (),
    **keys: Any,
) -> subprocess.CompletedProcess[str]:
    """Train; return the ended torchrun with its output."""
    document: dict[str, Any] = yaml.safe_load(sources.VALUES.read_text(encoding="utf-8"))["recipe"]
    loaded = [str(PLUGIN), *map(str, plugins)]
    args = {**document["args"], "external_plugins": loaded, "logging_steps": 1, **changes}
    of = parse({**document, "model": "m", "dataset": ["d"], "args": args, **keys})
    inputs = command_line.Inputs(
        model=home / "model", mcore=None, datasets=(str(home / "pairs.jsonl"),), clone=None
    )
    output = home / "checkpoints"
    flags = command_line.training_flags(of, inputs, output_dir=output, resume=resume, on_cpu=True)
    folder = home / "attempts" / str(attempt)
    folder.mkdir(parents=True)
    env = {
        **command_line.environment(os.environ, PLACE, nproc=1, package=PACKAGE),
        **features.environment(of, on_cpu=True),
        "DPO_RUN_FOLDER": str(home),
        "DPO_ATTEMPT_FOLDER": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "MODELSCOPE_CACHE": str(home / "cache"),
        "PYTHON_EXEC": str(warm.python()),  # of the ranks
    }
    program = str(command_line.program(of, site_packages(TRAIN) / "swift"))
    words = command_line.torchrun(
        replace(PLACE, master_port=free_port()),
        nproc=1,
        log_dir=folder / "ranks",
        python=str(warm.python()),
        program=[program, *command_line.flatten({**flags, "report_to": "none"})],
    )
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
