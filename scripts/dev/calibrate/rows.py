"""Rows of the calibration: measured and published runs."""

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from launchers.config import recipe
from launchers.config.gpu_models import GpuModel, by_name
from launchers.plan import training_job
from launchers.plan.memory import FIT, Fit, Host, Memory, host, predict
from launchers.plan.model_config import ModelConfig, parse_config
from launchers.plan.parameters import shards
from launchers.plan.step_time import PACE, Link, Pace, Speed
from launchers.plan.step_time import predict as step_time
from launchers.plan.training_job import Training
from launchers.units import GIB
from launchers.yaml_file import LOADER
from scripts.dev import results
from scripts.dev.calibrate import measured
from scripts.plan.inputs import known_models
from scripts.problem import Problem

ROWS = Path(__file__).with_name("rows")
READINGS = ("reserved", "device", "allocated")
HOST_READINGS = ("save", "peak")
MERGED = ("args", "config", "facts")
"""Maps of a row that its document may hold in part."""


@dataclass(frozen=True, kw_only=True)
class HostReading:
    """Host memory of a row's fullest node, from a rehearsal."""

    when: str
    """``save``: the most during the save of a step; ``peak``: the most of all attempts."""
    gib: float
    """Charged to the container, without the page cache of files."""
    filesGib: float = 0.0
    """Files on a tmpfs among them: they are the workspace's, not the run's processes'."""

    @property
    def own(self) -> float:
        """Return the GiB that the plan predicts."""
        return self.gib - self.filesGib


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run."""

    name: str
    source: str
    """Its publication, or the versions it was measured with."""
    card: str
    """The GPU model, under the key of the rows in YAML."""
    gpusPerNode: int
    args: dict[str, Any]
    """Flags of ms-swift, as a values file has them."""
    nodes: int = 1
    task: str = "rlhf"
    model: str = ""
    """A model of ``scripts/plan/models.yaml``; ``config`` overrides its keys."""
    config: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of ``Training`` that are not flags: the data's longest microbatch, plugins."""
    reads: str = ""
    """Meaning of ``gib``: ``reserved`` or ``allocated`` by PyTorch, or of the ``device``."""
    gib: float | None = None
    outOfMemory: bool = False
    hostGibOver: float | None = None
    """The node needed more GiB than this."""
    host: tuple[HostReading, ...] = ()
    seconds: float | None = None
    """Seconds per step."""
    kernels: float | None = None
    """Seconds of the kernels that compute in a traced step, the mean of its GPUs."""
    tokens: int = 0
    """Mean tokens of a microbatch."""
    mean_length: float = 0.0
    """sum(L^2) / sum(L) of the sequences: attention's length; an estimate for most rows."""
    link_gbs: float = 0.0
    """GB/s of a node to others; 0 where there is one node."""
    fit: bool = True
    """False leaves the row out of the fit; ``note`` has the reason."""
    fit_seconds: bool | None = None
    """The same for the time, where it differs."""
    note: str = ""
    visit: str = ""
    """Name of the document: its rows were measured together."""

    @property
    def gpu(self) -> GpuModel:
        """Return the GPU model."""
        return by_name(self.card)

    @cached_property
    def model_config(self) -> ModelConfig:
        """Return the model's sizes."""
        base = known_models()[self.model] if self.model else {}
        return parse_config({**base, **self.config})

    @cached_property
    def training(self) -> Training:
        """Return the job, read from the flags as a run's are."""
        document = {
            "backend": "megatron",
            "task": self.task,
            "model": "hf://row/row",
            "dataset": ["hf://row/row"],
            "args": self.args,
        }
        parsed = training_job.parse(
            recipe.parse(document), nodes=self.nodes, gpus_per_node=self.gpusPerNode
        )
        # only results of tests/bench say that their program had it
        return dataclasses.replace(parsed, **{"moves_rows": False, "labelled": 1.0, **self.facts})

    @property
    def ours(self) -> bool:
        """Return whether this project measured it; other rows were published."""
        return self.source.startswith("measured")

    def memory(self, fit: Fit = FIT) -> Memory:
        """Predict the row's memory."""
        return predict(self.model_config, self.training, fit)

    @cached_property
    def node(self) -> Host:
        """Predict the bytes of host memory on its fullest node."""
        parts = list(shards(self.model_config, self.training.layout, head=True))
        return host(self.model_config, self.training, parts)

    def node_gib(self) -> float:
        """Predict what its node needs before it saves anything, GiB."""
        return (self.node.processes + self.node.offload) / GIB

    def speed(self, pace: Pace = PACE) -> Speed:
        """Predict the row's time."""
        link = Link(name="network", gbs=self.link_gbs or 1.0)
        return step_time(
            self.model_config,
            self.training,
            self.gpu,
            link,
            self.mean_length,
            tokens=float(self.tokens),
            pace=pace,
        )

    def reading(self, memory: Memory) -> float:
        """Return the predicted reading, in GiB."""
        if self.reads == "allocated":
            return memory.total - memory.overhead
        return memory.reserved if self.reads == "reserved" else memory.total


def load(folder: Path = ROWS) -> list[Row]:
    """Read all rows; what a document says next to ``rows`` applies to each of them.

    A file holds one document per visit: runs that were measured, or published, together. The
    ``args``, ``config`` and ``facts`` of a row are added to those of its document. A document with
    ``results`` has the rows of these results of the bench.

    Raises:
        Problem: a row can't be parsed, or is not fitted and has no note.
    """
    rows = []
    for file in sorted(folder.glob("*.yaml")):
        for document in yaml.load_all(file.read_text(encoding="utf-8"), LOADER):
            rows += _rows(file, _resolved(document))
    for row in rows:
        if not row.fit and not row.note:
            raise Problem(f"{row.name}: set note to the reason why it is not fitted")
        if row.gib is not None and row.reads not in READINGS:
            raise Problem(f"{row.name}: reads={row.reads!r}; use {' or '.join(READINGS)}")
        if wrong := [each.when for each in row.host if each.when not in HOST_READINGS]:
            raise Problem(f"{row.name}: when={wrong[0]!r}; use {' or '.join(HOST_READINGS)}")
    return sorted(rows, key=lambda row: row.visit)


def _resolved(document: dict[str, Any]) -> dict[str, Any]:
    if "results" not in document:
        return document
    found = results.read()
    named: dict[str, dict[str, Any] | None] = document["results"]
    rows = [
        row for name, more in named.items() for row in measured.rows(found[name], name, more or {})
    ]
    return {"rows": rows}


def _rows(file: Path, document: dict[str, Any]) -> list[Row]:
    shared = {"visit": file.stem} | document
    rows = []
    for each in shared.pop("rows"):
        merged = {key: shared.get(key, {}) | each.get(key, {}) for key in MERGED}
        try:
            host = tuple(HostReading(**reading) for reading in each.get("host", ()))
            rows.append(Row(**shared | each | merged | {"host": host}))
        except TypeError as error:
            raise Problem(f"{file.name}: {each.get('name')}: {error}") from None
    return rows
