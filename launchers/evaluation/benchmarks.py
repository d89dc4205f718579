"""Benchmarks that the export answers after training, by evalscope, a library of the image."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers import PACKAGE, logs, suggestion
from launchers.config.env import integer
from launchers.config.settings import Launch
from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import environment
from launchers.storage import disk, marker
from launchers.system import lookup
from launchers.system.atomic_file import FOREIGN, read_object, replace
from launchers.system.process import Child
from launchers.system.remedies import MEMORY_REMEDY

TASKS, LIMIT = "DPO_BENCHMARKS", "DPO_BENCHMARK_LIMIT"
_KNOWN = (
    "import json, sys; from evalscope.api.registry import BENCHMARK_REGISTRY as known; "
    "open(sys.argv[1], 'w').write(json.dumps({'known': sorted(known)}))"
)
_MODEL = {"precision": "torch.bfloat16", "device_map": "auto"}


@dataclass(frozen=True, kw_only=True)
class Benchmarks:
    """What the export answers; nothing by default."""

    tasks: tuple[str, ...] = ()
    """Names of evalscope."""
    limit: int = 0
    """Most samples of each subset; 0 for all."""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Benchmarks:
        """Parse the launcher's environment."""
        tasks = tuple(filter(None, env.get(TASKS, "").split(",")))
        return cls(tasks=tasks, limit=integer(env, LIMIT, 0, lowest=0))


def refuse_unknown(launch: Launch, env: Mapping[str, str]) -> None:
    """Refuse benchmarks before training that evalscope of this image does not have.

    Its names take up to a minute: a restart with the same image and benchmarks does not ask again.

    Raises:
        LaunchError: CONFIG.
    """
    tasks = Benchmarks.of(env).tasks
    if not tasks or launch.rehearse:
        return
    work, accepted = launch.work, {"image": launch.image, "tasks": [*tasks]}
    found, listed = read_object(work.benchmarks), work.home / "benchmarks.names"
    if accepted["image"] and found.get("accepted") == accepted:
        return
    code = _run([sys.executable, "-c", _KNOWN, str(listed)], launch, env)
    known = read_object(listed).get("known")
    disk.remove(listed)
    if (code or 0) < 0:
        raise LaunchError(
            Exit.PEER,
            f"benchmarks.tasks: the list of evalscope's names ended with {code}",
            f"usually the kernel's OOM killer: {MEMORY_REMEDY}",
            id="benchmarks-unlisted",
        )
    if code or not isinstance(known, list):
        raise LaunchError(
            Exit.CONFIG,
            f"benchmarks.tasks: the image has no evalscope that works ({_log(launch)} has why)",
            "use an image with evalscope, or remove benchmarks.tasks",
            id="benchmarks-library",
        )
    for task in (each for each in tasks if each not in known):
        near = suggestion.nearest(task, known)
        raise LaunchError(
            Exit.CONFIG,
            f"benchmarks.tasks: this image's evalscope has no {task}",
            f"use {near}" if near else f"use names of {_log(launch).name}: evalscope lists them",
            id="benchmarks-unknown",
        )
    replace(work.benchmarks, json.dumps({**found, "accepted": accepted}) + "\n")


def measure(launch: Launch, env: Mapping[str, str]) -> str:
    """Let the export answer the benchmarks, unless this one has; return the scores in a sentence.

    A failure is logged and recorded; it does not end the run, whose export stands.
    """
    work, wanted = launch.work, Benchmarks.of(env)
    if not wanted.tasks or launch.rehearse:
        return ""
    made, found = marker.read(work.export), read_object(work.benchmarks)
    asked = {"tasks": list(wanted.tasks), "limit": wanted.limit}
    asked["export"] = made and marker.digest(made)
    if found.get("asked") != asked or found.get("problem"):
        disk.remove(work.benchmarks)
        folder = work.home / "benchmarks"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier attempt
        problem, scores = "the export is an adapter without its model; merge it", {}
        if lookup.exists(work.export / "config.json"):
            code = _run(command(work.export, folder, wanted), launch, env)
            scores = read_scores(folder)
            is_whole = not code and {*wanted.tasks} <= scores.keys()
            problem = "" if is_whole else f"evalscope ended with {code}; see {_log(launch)}"
        accepted = found.get("accepted")
        found = {"accepted": accepted, "asked": asked, "scores": scores, "problem": problem}
        replace(work.benchmarks, json.dumps(found) + "\n")
    if found["problem"]:
        logs.warning("benchmarks failed", why=found["problem"], id="benchmarks-failed")
    return "; ".join([*map(_said, found["scores"].items()), *filter(None, [found["problem"]])])


def command(export: Path, folder: Path, wanted: Benchmarks) -> list[str]:
    """Return the command of evalscope, which loads the export with transformers on all GPUs."""
    limit = ["--limit", str(wanted.limit)] if wanted.limit else []
    return [
        *(sys.executable, "-m", "evalscope.cli.cli", "eval", "--eval-type", "llm_ckpt"),
        *("--model", str(export), "--model-args", json.dumps(_MODEL)),
        *("--work-dir", str(folder), "--no-timestamp", *limit, "--datasets", *wanted.tasks),
    ]


def read_scores(folder: Path) -> dict[str, dict[str, float | str]]:
    """Return metric, score and number of samples by benchmark: the first metric of each report.

    A report of another form is left out: its benchmark has no score.
    """
    found: dict[str, dict[str, float | str]] = {}
    for path in sorted(folder.glob("reports/*/*.json")):
        report: dict[str, Any] = read_object(path)
        with contextlib.suppress(*FOREIGN):
            metric = report["metrics"][0]
            name = metric.get("name") or metric["identity"]["name"]  # evalscope 1.0 and 1.14
            found[report["dataset_name"]] = {
                "metric": name,
                "score": metric["score"],
                "samples": metric["num"],
            }
    return found


def _said(item: tuple[str, Mapping[str, Any]]) -> str:
    task, found = item
    return f"{task} {found['metric']} {found['score']:.3g} ({found['samples']} samples)"


def _log(launch: Launch) -> Path:
    return launch.work.home / "benchmarks.log"


def _run(argv: list[str], launch: Launch, env: Mapping[str, str]) -> int | None:
    inside = environment(env, launch.place, nproc=1, package=PACKAGE)
    online = {name: env.get(name, "0") for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")}
    return Child(argv, {**inside, **online}, _log(launch)).ended()
