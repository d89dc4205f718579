"""The numbers of one run, from its objects and files. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launchers.config.settings import STAGES
from launchers.metrics.rows import is_number
from launchers.stages.attempt_record import whole
from launchers.state.json_text import part
from scripts.observe.cluster import condition
from scripts.observe.spent import Spent, spent, warning
from scripts.observe.view import View, unix_time
from scripts.observe.workspace import Attempt, RunFiles
from scripts.start.forecast import Start
from scripts.why.position import Position, position
from scripts.why.reasons import Kind, Reason, explain

Numbers = Mapping[str, Any]
LOCAL = "local-checkpoints"
"""Name of the volume of the nodes' disks (`chart/charts/library/templates/pod/_volumes.tpl`)."""
DISKS = ("emptyDir", "hostPath")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the newest start."""

    name: str
    state: str
    seconds: float | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """A rank and where it runs."""

    rank: int
    pod: str
    node: str
    domain: str
    """The node's value of the topology key that the run asks for; empty if not known."""
    phase: str
    exit_code: int | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number of the newest step, and the plan's."""

    value: float | None
    planned: float | None = None

    @property
    def deviation(self) -> float | None:
        """Return by which share the value is above the plan; None without both.

        >>> Measured(value=110.0, planned=100.0).deviation
        0.1
        """
        if self.value is None or not self.planned:
            return None
        return round(self.value / self.planned - 1, 4)


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The newest complete checkpoint, and what an end without a save would cost."""

    step: int
    age_seconds: float | None
    lost_steps: int
    lost_seconds: float | None
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Local:
    """Checkpoints on the nodes' disks (`localCheckpoints`)."""

    kind: str
    """`emptyDir`, which serves restarts in the same pods, or `hostPath`: on the same nodes."""
    step: int | None = None
    """Newest step that all ranks have written and that is not complete on the workspace yet."""
    parts: int = 0
    copied: int = 0
    """Ranks with a part in it, and those whose part is on the workspace."""
    lost_steps: int = 0
    lost_seconds: float | None = None
    """Cost of an end without a save if these disks survive; otherwise see `Saved`."""


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt."""

    number: int
    resumed: int | None
    last_step: int | None
    cause: str
    lost_steps: int
    lost_seconds: float
    """Of steps that the next attempt trained again."""
    gap_seconds: float | None
    """From its last step to the first step of the next attempt; None for the last."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """A run at one moment; a part that is not known is None or empty."""

    run: str
    namespace: str
    context: str
    state: Kind
    reason: Reason
    age_seconds: float | None
    restarts: int
    counted_restarts: int
    max_restarts: int
    position: Position | None
    stage: str
    stages: tuple[Stage, ...]
    ranks: tuple[Place, ...]
    nodes: int
    step: int | None
    total: int | None
    eta_seconds: float | None
    step_seconds: Measured
    loss: float | None
    """Of the newest step that the trainer logged."""
    lacks_loss: int | None
    """That step, if its loss was not finite."""
    accuracy: float | None
    margin: float | None
    held_out: Numbers
    """`first`, `last`, `best`: step, loss, accuracy, margin, as `Evaluation.summary`."""
    rows: Numbers
    """Rows read and kept, and the reasons of the others; empty where they were not counted."""
    prompts: str
    """Whether prompts of pairs are computed once, and why not; empty where the values decide."""
    speed: Measured
    """Tokens per second per GPU."""
    mfu: Measured
    memory_gib: Measured
    """Reserved on the GPU with the most."""
    memory_of_gib: float | None
    saved: Saved | None
    local: Local | None
    """None without `localCheckpoints`."""
    attempts: tuple[Try, ...]
    effective: float | None
    """Share of the time since the first start that went into steps that count."""
    checkpoints: int
    spent: Spent | None
    budget: str
    """That the budget ends the run before its last step; empty if it does not."""
    gpu_model: str
    start: Start | None = None
    """None of a run that does not wait for its queue; `scripts.start.view` predicts it."""


def summarise(view: View, domains: Mapping[str, str] | None = None) -> Status:
    """Return the numbers of a run.

    ``domains``: topology domain by node, where nodes may be read.
    """
    files = view.files or RunFiles(run=view.run, exists=False, now=view.now)
    reason = explain(view)[0]
    training, row, plan = files.training, files.row, files.plan
    logged = next((each for each in reversed(files.recent) if "loss" in each.values), None)
    speed, memory = part(plan, "speed"), part(plan, "memory")
    since = unix_time((view.jobset.get("metadata") or {}).get("creationTimestamp"))
    env = {name: str(each["value"]) for name, each in view.variables.items() if "value" in each}
    is_pending = reason.kind is Kind.WAITING and view.is_suspended
    return Status(
        run=view.run,
        namespace=view.namespace,
        context=view.snapshot.context,
        state=reason.kind,
        reason=reason,
        age_seconds=max(0.0, view.now - since) if since else None,
        restarts=view.restarts[0],
        counted_restarts=view.restarts[1],
        max_restarts=view.max_restarts,
        position=position(view) if is_pending else None,
        stage=str(files.progress.get("stage") or ""),
        stages=tuple(_stages(files.progress)),
        ranks=tuple(_places(view, domains or {})),
        nodes=view.nodes,
        step=row.step if row else whole(training.get("step")),
        total=row.total if row else whole(training.get("total")),
        eta_seconds=_number(training.get("eta_seconds")),
        step_seconds=_measured("step_seconds", training, speed),
        loss=_number(logged.values.get("loss") if logged else training.get("loss")),
        lacks_loss=logged.step if logged and _number(logged.values.get("loss")) is None else None,
        accuracy=_number(training.get("accuracy")),
        margin=_number(training.get("margin")),
        held_out=part(training, "held_out"),
        rows=part(training, "rows"),
        prompts=str(files.progress.get("prompts") or ""),
        speed=_measured("tokens_per_second_per_gpu", training, speed),
        mfu=_measured("mfu", training, speed),
        memory_gib=Measured(
            value=row.reserved_gib if row else None, planned=_number(memory.get("total_gib"))
        ),
        memory_of_gib=_number(memory.get("card_gib")),
        saved=_saved(files),
        local=_local(view, files),
        attempts=tuple(_tries(files.attempts)),
        effective=_number(training.get("goodput")),
        checkpoints=sum(each.complete for each in files.checkpoints),
        spent=spent(files.progress, plan),
        budget=warning(env, files.progress, _processes(plan), view.now),
        gpu_model=str(part(plan, "gang").get("card") or ""),
    )


def _processes(plan: Numbers) -> int:
    return whole(part(plan, "gang").get("world_size")) or 1


def _measured(name: str, training: Numbers, plan: Numbers) -> Measured:
    return Measured(value=_number(training.get(name)), planned=_number(plan.get(name)))


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None


def _stages(progress: Numbers) -> Iterator[Stage]:
    found = part(progress, "stages")
    for name in (each for each in STAGES if each in found):
        stage = part(found, name)
        yield Stage(
            name=name,
            state=str(stage.get("state") or ""),
            seconds=_number(stage.get("seconds")) or None,
            why=str(stage.get("why") or ""),
        )


def _places(view: View, domains: Mapping[str, str]) -> Iterator[Place]:
    for rank in view.ranks:
        yield Place(
            rank=rank.number,
            pod=rank.pod,
            node=rank.node,
            domain=domains.get(rank.node, ""),
            phase="Terminating" if rank.terminating_since else _phase(view, rank.pod, rank.phase),
            exit_code=rank.exit_code,
        )


def _phase(view: View, pod: str, phase: str) -> str:
    """Return the reason for which a pod does not start, otherwise its phase."""
    waiting = next((each.reason for each in view.waiting if each.rank.pod == pod), "")
    if waiting or phase != "Pending":
        return waiting or phase
    item = next(each for each in view.snapshot.pods if each["metadata"]["name"] == pod)
    return str(condition(item, "PodScheduled").get("reason") or phase)


def _saved(files: RunFiles) -> Saved | None:
    newest = files.newest
    if newest is None:
        return None
    steps, seconds = _lost(files, newest.step)
    age = max(0.0, files.now - newest.saved_at) if newest.saved_at else None
    return Saved(
        step=newest.step,
        age_seconds=age,
        lost_steps=steps,
        lost_seconds=seconds,
        bytes=newest.bytes,
    )


def _lost(files: RunFiles, saved: int) -> tuple[int, float | None]:
    """Return the steps since a checkpoint, and their seconds if they are known."""
    steps = max(0, files.row.step - saved) if files.row else 0
    usual = _number(files.training.get("step_seconds"))
    return steps, steps * usual if usual else None


def _local(view: View, files: RunFiles) -> Local | None:
    volumes = (view.gang_pod.get("spec") or {}).get("volumes") or []
    kinds = [kind for each in volumes if each["name"] == LOCAL for kind in DISKS if kind in each]
    if not kinds:
        return None
    found = files.pending
    if found is None:
        return Local(kind=kinds[0])
    steps, seconds = _lost(files, found.step)
    return Local(
        kind=kinds[0],
        step=found.step,
        parts=found.parts,
        copied=found.copied,
        lost_steps=steps,
        lost_seconds=seconds,
    )


def _tries(attempts: tuple[Attempt, ...]) -> Iterator[Try]:
    for number, attempt in enumerate(attempts):
        later = next((each.first for each in attempts[number + 1 :] if each.first), None)
        last, root = attempt.last, attempt.root
        gap = later.time - later.seconds - last.time if later and last else None
        yield Try(
            number=attempt.number,
            resumed=attempt.resumed,
            last_step=last.step if last else None,
            cause=f"{root.failure_class}: {root.cause}" if root else "",
            lost_steps=attempt.lost_steps,
            lost_seconds=round(attempt.lost_seconds, 3),
            gap_seconds=round(max(0.0, gap), 3) if gap is not None else None,
        )
