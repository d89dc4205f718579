"""Record of a run, read from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launchers.evaluation.evaluations import Evaluation
from launchers.stages.attempt_record import End
from launchers.state.json_text import part
from scripts.prices import NONE, Prices
from scripts.report.columns import Points


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of the gang. Times are Unix times in seconds, None where no file has them."""

    number: int
    resumed: int | None = None
    """Step of the checkpoint that it began from; None if it never trained."""
    began: float | None = None
    """Start of the training processes."""
    trained_from: float | None = None
    """Begin of its first step."""
    kept_until: float | None = None
    """End of its last step that counts; None if all its steps were trained again."""
    trained_until: float | None = None
    """End of its last step or evaluation."""
    first_step: int | None = None
    last_step: int | None = None
    kept_seconds: float = 0.0
    """Duration of the steps that count."""
    lost_steps: int = 0
    """Steps that a later attempt trained again."""
    lost_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    end: End | None = None
    """The end of the rank that ended first; None if no rank left a record."""
    pods: Sequence[Mapping[str, Any]] = ()
    """Preflight report of each rank."""
    packing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Steps without a value that is finite."""

    steps: int
    """Their number."""
    last: int
    """The last of them."""
    is_newest: bool
    """Whether no later step has one that is finite."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run."""

    name: str
    place: str
    """Its source."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    features: Mapping[str, Any] = field(default_factory=dict)
    """``features.json`` of the newest complete checkpoint."""
    export: Mapping[str, Any] = field(default_factory=dict)
    """Marker of the exported model, with its manifest."""
    export_test: Mapping[str, Any] = field(default_factory=dict)
    """``export.json``: the export's log-probabilities compared with the trainer's."""
    benchmarks: Mapping[str, Any] = field(default_factory=dict)
    """``benchmarks.json``: the export's scores."""
    checkpoints: Sequence[int] = ()
    """Steps of the complete checkpoints that are kept."""
    curves: Mapping[str, Points] = field(default_factory=dict)
    """By name of the column in ``metrics.jsonl``."""
    missing: Mapping[str, Missing] = field(default_factory=dict)
    """By column, for the loss and the gradient norm: steps that were logged without one."""
    evaluations: Sequence[Evaluation] = ()
    pairs: Mapping[str, Any] = field(default_factory=dict)
    """Summary of the pair ledger (``launchers/training/ledger/summary.py``)."""
    attempts: Sequence[Attempt] = ()
    rows: int = 0
    """Steps that count."""
    step: int = 0
    total: int = 0
    world: int = 0
    unread: str = ""
    """Error of ``metrics.jsonl``: nothing that comes from its steps is known."""
    tokens: int | None = None
    """Real tokens of the steps that count; None if they were not counted."""
    medians: Mapping[str, float] = field(default_factory=dict)
    """Of ``seconds``, ``tokens_per_second_per_gpu``, ``mfu`` and ``fill``, where recorded."""
    peak_gib: float | None = None
    """Largest memory that the allocator of a GPU held."""
    prices: Prices = NONE
    """Of GPU-hours."""
    changes: Sequence[str] = ()
    """Differences between the installed recipe, launcher and chart and those of its files."""
    notes: Sequence[str] = ()
    """One sentence for each part that could not be read."""

    @property
    def training(self) -> Mapping[str, Any]:
        """Return the training state in ``progress.json``."""
        return part(self.progress, "training")

    @property
    def started(self) -> float | None:
        """Return the start of the run's first attempt."""
        found = self.progress.get("first_started")
        return float(found) if isinstance(found, int | float) else None

    @property
    def has_gpus(self) -> bool:
        """Return whether each process has a GPU: by the plan, or as memory was recorded."""
        return bool(part(self.plan, "gang").get("gpus_per_node")) or self.peak_gib is not None
