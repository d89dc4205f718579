"""Paths on the workspace, the volume that all ranks of a run share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROBE = "probe-{}.json"
"""File of the policy's log-probabilities of some pairs, by the step."""


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

    @property
    def inputs(self) -> Path:
        """Return the file of digests: of the recipe and of the outputs of earlier stages."""
        return self.home / "inputs.json"

    @property
    def lock(self) -> Path:
        """Return the file that names the launcher which leads this run."""
        return self.home / "run.lock"

    @property
    def attempts(self) -> Path:
        """Return the parent of the per-attempt folders."""
        return self.home / "attempts"

    @property
    def checkpoints(self) -> Path:
        """Return the trainer's output folder."""
        return self.home / "checkpoints"

    @property
    def export(self) -> Path:
        """Return the final checkpoint in Hugging Face format."""
        return self.home / "export"

    @property
    def progress(self) -> Path:
        """Return the file with the run's stage and progress."""
        return self.home / "progress.json"

    @property
    def metrics(self) -> Path:
        """Return the file with a row for each optimizer step."""
        return self.home / "metrics.jsonl"

    @property
    def pairs(self) -> Path:
        """Return the folder of the pair ledger."""
        return self.home / "pairs"

    @property
    def plan(self) -> Path:
        """Return the file with the run's predictions."""
        return self.home / "plan.json"

    @property
    def export_test(self) -> Path:
        """Return the file with the result of the export's test."""
        return self.home / "export.json"

    @property
    def benchmarks(self) -> Path:
        """Return the file with the export's scores."""
        return self.home / "benchmarks.json"

    def probe(self, step: int) -> Path:
        """Return the file of the policy's log-probabilities of some pairs at a step."""
        return self.home / PROBE.format(step)
