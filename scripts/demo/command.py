"""`megatron-dpo demo`: create the sources, run the chart's JobSet here, score the checkpoint."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from launchers.config.workspace import Workspace
from launchers.rules.table import SWIFT
from scripts.demo import sources
from scripts.demo.sources import Sources
from scripts.helm import ROOT
from scripts.local.command import Request, run_locally
from scripts.local.runner import training_python
from scripts.problem import Problem
from scripts.report import command as reporting
from scripts.report import reading
from scripts.report.record import RunRecord
from scripts.terminal import plain_table

FOLDER = ROOT / ".demo"
RUN = "demo"
REQUIRED_ACCURACY = 0.95
"""Minimum held-out accuracy; a random model has about 0.5, and the task is easy to learn."""
UP_TO_DATE = "up to date"

Score = Mapping[str, float]
"""Measurements of `score.py` on the held-out pairs."""


def run(folder: Path, console: Console, swift: str = SWIFT) -> int:
    """Run the demo in `folder` with a release of ms-swift; return its exit status."""
    folder = folder.resolve()
    made, workspace = Sources(root=folder / "sources", swift=swift), folder / "workspace"
    own = str(ROOT / ".tools" / f"train-{swift}" / "bin" / "python")
    python = training_python(ROOT, None if swift == SWIFT else own)
    if not sources.is_current(made):
        remove(folder)  # an earlier run used other sources
    prepare(made, python, console)
    files = [sources.VALUES, made.values]
    request = Request(run=RUN, files=files, workspace=workspace, python=str(python))
    code = run_locally(request, console)
    if code:
        console.print(f"the run ended with exit code {code}", style="red")
        return code
    work = Workspace(root=workspace, run=RUN)
    with phase("score", console) as note:
        score, state = scored(made, work.export, python, folder / "score.json")
        note(state)
    record = reading.read(work)
    console.print(table(record, score))
    console.print(f"checkpoint  {work.export}", soft_wrap=True)
    page = folder / "report.html"
    page.write_text(reporting.render([record]), encoding="utf-8")
    console.print(f"report      {page}", soft_wrap=True)
    return verdict(score["accuracy_after"], console)


def table(record: RunRecord, score: Score) -> Table:
    """Return accuracy and margin on held-out pairs, and the loss, before and after training."""
    loss = record.curves["loss"]
    shown = plain_table(f"DPO, {record.step} of {record.total} steps", "before", "after")
    for name, before, after in (
        ("accuracy on held-out pairs", score["accuracy_before"], score["accuracy_after"]),
        ("reward margin on the same", 0.0, score["margin_after"]),
        ("training loss", loss.means[0], loss.means[-1]),
    ):
        shown.add_row(name, f"{before:.3f}", f"{after:.3f}")
    return shown


def verdict(accuracy: float, console: Console) -> int:
    """Return 0 when the model has learned; print a message and return 1 when it has not."""
    if accuracy >= REQUIRED_ACCURACY:
        return 0
    message = f"held-out accuracy {accuracy:.3f} is below {REQUIRED_ACCURACY}: training is broken"
    console.print(message, style="red")
    return 1


def prepare(made: Sources, python: Path, console: Console) -> None:
    """Create pairs, model and code repository, unless they are up to date."""
    with phase("pairs", console) as note:
        if sources.is_current(made):
            note(UP_TO_DATE)
            return
        train, held_out = sources.make_pairs(made)
        note(f"{train + held_out} from docstrings, {held_out} of them held out")
    with phase("model", console) as note:
        note(f"Qwen3 with {int(sources.make_model(made, python)):,} parameters")
    with phase("code", console) as note:
        commit = sources.make_code(made)
        note(commit[:12])
    sources.write_values(made, commit)
    sources.seal(made)


@contextmanager
def phase(name: str, console: Console) -> Iterator[Callable[[str], None]]:
    """Time a phase, show a spinner, and print the note that the body gives."""
    started, texts = time.monotonic(), ["done"]
    with console.status(f"{name} ..."):
        yield texts.append
    seconds = time.monotonic() - started
    console.print(f"{name}: {texts[-1]} ({seconds:.1f} s)", highlight=False)


def scored(made: Sources, export: Path, python: Path, cache: Path) -> tuple[Score, str]:
    """Return the score of the exported checkpoint; it is cached by the digest of the files."""
    key = digest([made.held_out, *sorted(export.glob("*.safetensors"))])
    if cache.exists():
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return kept["score"], UP_TO_DATE
    arguments = [str(made.held_out), str(made.model), str(export), str(beta())]
    score = json.loads(sources.in_training(python, "scripts.demo.score", arguments))
    cache.write_text(json.dumps({"key": key, "score": score}) + "\n", encoding="utf-8")
    return score, "the exported checkpoint on the held-out pairs"


def digest(files: list[Path]) -> str:
    """Return the SHA-256 of the files' contents."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()


def beta() -> float:
    """Return DPO's beta in the demo's values."""
    values = yaml.safe_load(sources.VALUES.read_text(encoding="utf-8"))
    return float(values["recipe"]["args"]["beta"])


def clean(folder: Path, console: Console) -> None:
    """Remove all files of the demo."""
    remove(folder.resolve())
    console.print(f"removed {folder.resolve()}", soft_wrap=True)


def remove(folder: Path) -> None:
    """Remove a folder that the demo created.

    Raises:
        Problem: the folder was not created by the demo.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / "sources").is_dir():
        raise Problem(
            f"{folder} was not created by the demo, so nothing is removed; choose another --folder"
        )
    shutil.rmtree(folder)
