"""Verdicts of a rehearsal: each measurement against its limit and its prediction.

Pure. A figure that fails ends the rehearsal with CONFIG: the long run would fail, too. A warning
names what the run would lose, and the values key that changes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from launchers.plan.footprint import SAVE_SHARE
from launchers.rehearsal.measured import Measured
from launchers.rehearsal.rehearsal import Rehearsal
from launchers.stop.agreement import seconds_to_save
from launchers.units import GIB

Verdict = Literal["ok", "warn", "fail"]
GPU_SHARE = 0.95
"""Largest share of a GPU's memory without a warning: fragmentation grows with longer packs."""
HOST_SHARES = (0.85, 0.95)
"""Shares of the host memory's limit from which on a rehearsal warns and fails."""
FILES_SHARE = 0.05
"""Share of the host memory's peak from which on files on a tmpfs are shown: those of Kubernetes and
NCCL take less."""
SPEED_SHARE = 0.8
"""Smallest share of the predicted tokens/s without a warning."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the report."""

    id: str
    """Stable name."""
    verdict: Verdict
    measured: str
    against: str = ""
    """The limit or the prediction."""
    remedy: str = ""
    """The remedy; empty where nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Limits and predictions that the measurements are compared with."""

    rehearsal: Rehearsal
    plan: Mapping[str, Any]
    """``plan.json`` of the long run."""
    grace_seconds: float
    save_every: int | None
    """Steps between two checkpoints of the long run; None if saved by time or by epoch."""
    kept: int | None
    """Checkpoints kept by the long run; None for all."""

    def planned(self, part: str, name: str) -> float | None:
        """Return a number of the plan; None where it was not predicted."""
        found = (self.plan.get(part) or {}).get(name)
        return float(found) if isinstance(found, int | float) else None


class Unknown(Exception):
    """A figure that can't be judged; the message says why."""


def judge(measured: Measured, context: Context) -> tuple[list[Figure], dict[str, str]]:
    """Return the figures, and why others are unknown, by id."""
    figures, unknown = [], {}
    for id, check in _CHECKS.items():
        try:
            figures.append(Figure(id=id, **check(measured, context)))
        except Unknown as why:
            unknown[id] = str(why)
    return figures, unknown


Fields = dict[str, Any]
"""The fields of a figure but its id."""


def _figure(measured: str, against: str = "", *, wrong: Verdict = "ok", remedy: str = "") -> Fields:
    """Return a figure's fields; ``remedy`` counts if something is wrong."""
    remedy = "" if wrong == "ok" else remedy
    return {"verdict": wrong, "measured": measured, "against": against, "remedy": remedy}


def _resume(m: Measured, c: Context) -> Fields:
    wanted = c.rehearsal.save_at
    failed: Any = {"wrong": "fail", "remedy": "read the logs of rank 0 from the kill on"}
    if m.killed_rank is None:
        return _figure("no process was killed", **failed)
    if m.resumed_from != wanted or m.restart_seconds is None:
        return _figure(f"continued after step {m.resumed_from}", f"{wanted}", **failed)
    return _figure(f"from step {wanted}, next step after {m.restart_seconds:.0f} s")


def _gpu_memory(m: Measured, c: Context) -> Fields:
    limit = m.gpu_limit_gib or c.planned("memory", "card_gib")
    if m.gpu_gib is None or limit is None:
        raise Unknown("no GPU, or its memory is unknown: set gpuModel")
    plan = c.planned("memory", "reserved_gib")  # the total has what PyTorch does not count
    return _figure(
        f"{m.gpu_gib:.1f} GiB reserved",
        f"{limit:.1f} GiB" + ("" if plan is None else f", planned {plan:.1f}"),
        wrong="warn" if m.gpu_gib > GPU_SHARE * limit else "ok",
        remedy="recompute more layers (recipe.args.recompute_num_layers)",
    )


def _host_memory(m: Measured, c: Context) -> Fields:
    known = [(host.peak / host.limit, host) for host in m.hosts if host.limit]
    if not known:
        raise Unknown("neither a cgroup nor /proc/meminfo could be read")
    used, host = max(known, key=lambda entry: entry[0])
    warn, fail = HOST_SHARES
    save = "" if host.peak_at_save is None else f", {host.peak_at_save / GIB:.1f} at the save"
    plan = c.planned("memory", "host_gib_per_node")
    files = host.files or 0
    has_files = files > FILES_SHARE * host.peak
    held = f", {files / GIB:.1f} of it files on a tmpfs" if has_files else ""
    planned = "" if plan is None else f", planned {plan:.1f}" + " without files" * has_files
    disk = "keep the workspace on a disk or a network file system, or " * has_files
    return _figure(
        f"{host.peak / GIB:.1f} GiB on rank {host.rank}{save}{held}",
        f"{(host.limit or 0) / GIB:.1f} GiB{planned}",
        wrong="fail" if used >= fail else "warn" if used >= warn else "ok",
        remedy=f"{disk}raise resources.limits.memory, or use fewer workers "
        "(recipe.args.dataloader_num_workers)",
    )


def _speed(m: Measured, c: Context) -> Fields:
    if m.tokens_per_second_per_gpu is None or m.step_seconds is None:
        raise Unknown("no step was measured, or its tokens are not counted")
    plan = c.planned("speed", "tokens_per_second_per_gpu")
    is_slow = plan is not None and m.tokens_per_second_per_gpu < SPEED_SHARE * plan
    return _figure(
        f"{m.tokens_per_second_per_gpu:.0f} tokens/s per GPU, {m.step_seconds:.3g} s a step",
        "" if plan is None else f"planned {plan:.0f}",
        wrong="warn" if is_slow else "ok",
        remedy="compare preflight-<rank>.json with the fabric's usual bandwidth",
    )


def _save(m: Measured, c: Context) -> Fields:
    if m.save_seconds is None:
        raise Unknown("no complete checkpoint was seen after the saved step")
    plan = c.planned("footprint", "hold_seconds")
    hold = m.save_seconds if m.hold_seconds is None else m.hold_seconds
    share = None
    if m.step_seconds is not None and c.save_every is not None:
        share = hold / (hold + c.save_every * m.step_seconds)
    return _figure(
        f"stops training for {hold:.1f} s, complete after {m.save_seconds:.1f} s"
        + ("" if share is None else f", {100 * share:.1f} % of the run"),
        f"{100 * SAVE_SHARE:.0f} %" + ("" if plan is None else f", planned {plan:.0f} s"),
        wrong="warn" if share is not None and share > SAVE_SHARE else "ok",
        remedy="save less often (recipe.args.save_steps), or on faster storage",
    )


def _grace(m: Measured, c: Context) -> Fields:
    if m.save_seconds is None or m.step_seconds is None:
        raise Unknown("the seconds of a step and of a save are not known")
    needed, given = m.step_seconds + m.save_seconds, seconds_to_save(c.grace_seconds)
    longer = needed * 1.2 + c.grace_seconds - given
    return _figure(
        f"{needed:.0f} s for a step and a save",
        f"{given:.0f} s of {c.grace_seconds:.0f} s",
        wrong="ok" if needed <= given else "warn",
        remedy=f"set terminationGracePeriodSeconds: {longer:.0f}; until then preemption loses the "
        "work since the last checkpoint",
    )


def _load(m: Measured, c: Context) -> Fields:
    if m.load_seconds is None:
        raise Unknown("the trainer does not mark the load of a checkpoint, or nothing was resumed")
    return _figure(f"{m.load_seconds:.1f} s")


def _disk(m: Measured, c: Context) -> Fields:
    if m.checkpoint_bytes is None:
        raise Unknown("the checkpoint was removed before it was measured")
    if m.free_bytes is None:
        raise Unknown("the workspace's file system states no free space")
    count = _checkpoints(c)
    if count is None:
        raise Unknown("the number of checkpoints is unknown: set recipe.args.save_total_limit")
    merges = (c.plan.get("footprint") or {}).get("merges")
    models = {"last": 1, "every": count}.get(str(merges), 0)
    merged = models * (c.planned("footprint", "merged") or 0.0)
    needed = count * m.checkpoint_bytes + merged
    more = f", merged models {merged / 1e9:.3g} GB" if merged else ""
    return _figure(
        f"{m.checkpoint_bytes / 1e9:.3g} GB a checkpoint, {count} at a time{more}: "
        f"{needed / 1e9:.3g} GB",
        f"{m.free_bytes / 1e9:.3g} GB free",
        wrong="ok" if needed <= m.free_bytes else "fail",
        remedy="free space, enlarge the workspace, or lower recipe.args.save_total_limit",
    )


def _checkpoints(c: Context) -> int | None:
    """Return the most checkpoints at a time: the oldest goes once a new one is complete."""
    if c.kept is not None:
        return c.kept + 1
    steps = c.planned("length", "steps")
    if steps is None or c.save_every is None:
        return None
    return int(-(-steps // c.save_every))


def _evaluation(m: Measured, c: Context) -> Fields:
    if m.evaluation_seconds is None:
        raise Unknown("no rows are held out, or they were not evaluated")
    plan = c.planned("evaluation", "seconds")
    return _figure(f"{m.evaluation_seconds:.1f} s", "" if plan is None else f"planned {plan:.0f} s")


def _export(m: Measured, c: Context) -> Fields:
    if (found := m.export) is None:
        raise Unknown("nothing was exported")
    how = f"loaded and run as {found.model}" if found.model else "every tensor read and finite"
    size = f"{found.tensors} tensors, {found.bytes / 1e9:.3g} GB"
    return _figure(
        "; ".join(found.problems) or f"{size} in {found.seconds:.1f} s, {how}",
        wrong="fail" if found.problems else "ok",
        remedy="check the log of rank 0, and the plugins that change the model",
    )


_CHECKS: Mapping[str, Callable[[Measured, Context], Fields]] = {
    "resume": _resume, "gpu-memory": _gpu_memory, "host-memory": _host_memory, "speed": _speed,
    "save": _save, "grace": _grace, "load": _load, "disk": _disk, "evaluation": _evaluation,
    "export": _export,
}  # fmt: skip
"""All figures, in the order of the report."""
