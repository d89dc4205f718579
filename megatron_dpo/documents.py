"""The documents of ``--json`` as frozen dataclasses.

Names, units and meaning are those of `scripts/documents.yaml`, `scripts/plan/document.py`,
`scripts/report/document.py` and `scripts/fix/command.py`. What those keep as maps are maps here;
``document`` has all of it.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from scripts.report.command import render
from scripts.report.record import RunRecord

Map = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document, or a part of one."""

    document: Map = field(default_factory=dict, repr=False, compare=False)
    """All of it, as ``--json`` prints it."""

    @classmethod
    def of(cls, document: Map) -> Self:
        """Return the document; fields that this class does not name are in ``document`` alone.

        Raises:
            KeyError: a field is missing.
        """
        hints = get_type_hints(cls)
        given = {
            each.name: _read(hints[each.name], document[each.name])
            for each in fields(cls)
            if each.default is MISSING and each.default_factory is MISSING
        }
        return cls(**given, document=document)


def _read(kind: Any, value: Any) -> Any:
    """Return a JSON value as a type of these classes."""
    origin, arguments = get_origin(kind), get_args(kind)
    if value is None:
        return None
    if origin in (Union, UnionType):
        return _read(next(each for each in arguments if each is not type(None)), value)
    if origin is tuple:
        return tuple(_read(arguments[0], each) for each in value)
    if isinstance(kind, type) and issubclass(kind, Document):
        return kind.of(value)
    return value


@dataclass(frozen=True, kw_only=True)
class Change(Document):
    """A change of one value: ``set``, ``remove``, ``move``, ``quote``, ``ask`` or ``replace``."""

    act: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Remedy(Document):
    """The changes that a refusal's words propose."""

    id: str
    path: str
    sure: bool
    """True if it needs no answer."""
    choices: tuple[tuple[Change, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Plan(Document):
    """The document of `megatron-dpo plan --json`."""

    accepted: bool
    refusals: tuple[str, ...]
    fixes: tuple[Remedy, ...]
    warnings: tuple[str, ...]
    submission: Map | None
    plan: Map | None
    model_states: Map | None
    cost: Map | None
    proposals: tuple[Map, ...]


@dataclass(frozen=True, kw_only=True)
class Applied(Document):
    """A remedy that was applied."""

    id: str
    path: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class Rejected(Document):
    """A remedy that was not right for the files."""

    id: str
    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Fixed(Document):
    """The document of `megatron-dpo plan --fix --json`."""

    accepted: bool
    files: tuple[str, ...]
    """Those that were written."""
    difference: str
    applied: tuple[Applied, ...]
    rejected: tuple[Rejected, ...]
    refusals: tuple[str, ...]
    fixes: tuple[Remedy, ...]


@dataclass(frozen=True, kw_only=True)
class Start(Document):
    """When a waiting run starts; Unix times."""

    earliest: float | None
    expected: float | None
    latest: float | None
    reasons: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Reason(Document):
    """A state that a run is in."""

    id: str
    kind: str
    sentence: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Finding(Document):
    """A finding of the doctor."""

    id: str
    level: str
    subject: str
    found: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Submission(Document):
    """The document of `megatron-dpo submit --json`."""

    run: str
    context: str | None
    namespace: str | None
    dry_run: bool
    refused: str | None
    command: tuple[str, ...]
    submitted: bool
    findings: tuple[Finding, ...]
    states: tuple[Reason, ...]


@dataclass(frozen=True, kw_only=True)
class Repair(Document):
    """A command of a remedy that was run, by words."""

    id: str
    """Of the reason."""
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Why(Document):
    """The document of `megatron-dpo why --json`."""

    context: str
    namespace: str
    run: str
    state: str
    reasons: tuple[Reason, ...]
    start: Start | None
    workspace: str
    notes: tuple[str, ...]
    fixed: Repair | None = None
    """The command that `fix` has run before this was read."""


@dataclass(frozen=True, kw_only=True)
class Measured(Document):
    """A measured number next to the plan's."""

    value: float | None
    planned: float | None


@dataclass(frozen=True, kw_only=True)
class Status(Document):
    """The document of `megatron-dpo status --json`."""

    run: str
    namespace: str
    context: str
    state: str
    reason: Reason
    start: Start | None
    stage: str
    stages: tuple[Map, ...]
    ranks: tuple[Map, ...]
    step: int | None
    total: int | None
    eta_seconds: float | None
    loss: float | None
    accuracy: float | None
    margin: float | None
    step_seconds: Measured
    speed: Measured
    mfu: Measured
    memory_gib: Measured
    restarts: int
    attempts: tuple[Map, ...]
    effective: float | None
    checkpoints: Any
    workspace: str
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line(Document):
    """A line of a rank's output."""

    rank: int
    line: str


@dataclass(frozen=True, kw_only=True)
class Data(Document):
    """The document of `megatron-dpo data --json`."""

    refused: tuple[str, ...]
    datasets: tuple[Map, ...]
    max_length: int
    template: str
    pairs: int
    unit: str
    prompt: Map | None
    chosen: Map | None
    rejected: Map | None
    cut: float | None
    duplicates: int


@dataclass(frozen=True, kw_only=True)
class Report(Document):
    """The document of `megatron-dpo report -o json`; a notebook shows it as the page."""

    HEIGHT: ClassVar[int] = 900
    """Of the page in a notebook, in pixels."""
    runs: tuple[Map, ...]
    records: Sequence[RunRecord] = field(default=(), repr=False, compare=False)
    """What was read; the page is drawn from it."""

    def page(self) -> str:
        """Return the report as one HTML page that needs no network."""
        return render(self.records)

    def _repr_html_(self) -> str:
        """Return the page in a frame, whose styles and scripts do not reach the notebook."""
        source = html.escape(self.page(), quote=True)
        style = "width: 100%; border: 0"
        return f'<iframe srcdoc="{source}" height="{self.HEIGHT}" style="{style}"></iframe>'
