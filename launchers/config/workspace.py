"""Paths on the workspace, the volume that all ranks of a run share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROBE = "probe-{}.json"
"""File of the policy's log-probabilities of some pairs, by the step."""


class Below:
    """A path below a folder that an object has as an attribute.

    >>> Workspace(root=Path("/w"), run="dpo").lock
    PosixPath('/w/runs/dpo/run.lock')
    """

    def __init__(self, folder: str, name: str) -> None:
        """Take the attribute, and the name below its folder."""
        self.folder, self.name = folder, name

    def __get__(self, holder: object, _: object = None) -> Path:
        """Return the path of one object."""
        return Path(getattr(holder, self.folder), self.name)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Paths below one workspace. Pure: creates nothing."""

    root: Path
    run: str
    libraries: tuple[Path, ...] = ()
    """Folders outside ``root`` that all ranks mount read-only with the same content."""

    @classmethod
    def of(cls, home: Path) -> Workspace:
        """Return the workspace that holds the run folder ``home``."""
        return cls(root=home.parent.parent, run=home.name)

    def code(self, slug: str) -> Path:
        """Return the clone of the training code that all runs share."""
        return self.root / "code" / slug

    def own_code(self, slug: str) -> Path:
        """Return the clone of the training code of this run alone."""
        return self.home / "code" / slug

    @staticmethod
    def clone_of(path: Path) -> Path | None:
        """Return the clone that a file is in; None for one in no clone.

        >>> Workspace.clone_of(Path("/w/code/dpo@v1-28/plugins/a.py")).name
        'dpo@v1-28'
        """
        return next((each for each in path.parents if each.parent.name == "code"), None)

    def model(self, slug: str) -> Path:
        """Return the folder of a downloaded model and its marker."""
        return self.root / "models" / slug

    def dataset(self, slug: str) -> Path:
        """Return the folder of a downloaded dataset and its marker."""
        return self.root / "datasets" / slug

    def mcore(self, slug: str) -> Path:
        """Return the model converted to Megatron format."""
        return self.root / "mcore" / slug

    def jit(self, key: str) -> Path:
        """Return the folder of kernels compiled at run time."""
        return self.root / "cache" / "jit" / key

    @property
    def home(self) -> Path:
        """Return the folder of this run."""
        return self.root / "runs" / self.run

    inputs = Below("home", "inputs.json")
    """File of digests: of the recipe and of the outputs of earlier stages."""
    lock = Below("home", "run.lock")
    """File that names the launcher which leads this run."""
    attempts = Below("home", "attempts")
    """Parent of the per-attempt folders."""
    checkpoints = Below("home", "checkpoints")
    """Trainer's output folder."""
    export = Below("home", "export")
    """Final checkpoint in Hugging Face format."""
    progress = Below("home", "progress.json")
    """File with the run's stage and progress."""
    metrics = Below("home", "metrics.jsonl")
    """File with a row for each optimizer step."""
    pairs = Below("home", "pairs")
    """Folder of the pair ledger."""
    plan = Below("home", "plan.json")
    """File with the run's predictions."""
    export_test = Below("home", "export.json")
    """File with the result of the export's test."""
    benchmarks = Below("home", "benchmarks.json")
    """File with the export's scores."""

    def probe(self, step: int) -> Path:
        """Return the file of the policy's log-probabilities of some pairs at a step."""
        return self.home / PROBE.format(step)
