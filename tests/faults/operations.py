"""Reads of a run's own state, for ``errno_matrix.py``: each with the folder that it needs.

An operation returns what the launcher decides by it: the chosen checkpoint, whether to train,
what is left after a rotation.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from launchers.config.recipe import Recipe
from launchers.config.sources import parse_source
from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import LaunchError
from launchers.metrics import reader
from launchers.preflight import gang_checks, gang_probes
from launchers.preflight.finding import failure
from launchers.reference import run_store, store
from launchers.reference.fingerprint import Machine
from launchers.run import rehearse
from launchers.stages import attempt, attempt_record, convert, export, local_files, resume
from launchers.storage import checkpoint, manifest, marker, node_disk, output, retention
from launchers.storage import visible as visible_outputs
from launchers.storage.lock import Lock
from launchers.storage.marker import Marker
from launchers.system import atomic_file, lookup

Act = Callable[[], object]
IDENTITY = {"recipe": "a", "model": "m"}
RECIPE = Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",), args={})
KEEP = ("checkpoint-100",)


@dataclass(frozen=True)
class Operation:
    name: str
    prepare: Callable[[Path], Act]
    """Fills an empty folder, and returns the operation on it."""


def workspace(root: Path, steps: tuple[int, ...] = (100, 200, 300)) -> Workspace:
    """Make a run with sealed checkpoints of two ranks, and one past attempt."""
    work = Workspace(root=root, run="dpo-42")
    attempt_record.begin(work.attempts / "1", None)
    work.inputs.write_text(json.dumps(IDENTITY))
    for step in steps:
        assert checkpoint.seal(saved(work, step), step)
    return work


def saved(work: Workspace, step: int) -> Path:
    """Write a checkpoint as two ranks and torch do, without its seal."""
    folder = work.checkpoints / f"checkpoint-{step}"
    inner = folder / f"iter_{step:07d}"
    inner.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (inner / ".metadata").write_bytes(b"\x80\x04 __0_0.distcp __1_0.distcp.")
    for rank in range(2):
        (inner / f"__{rank}_0.distcp").write_bytes(bytes([rank]) * 100)
        checkpoint.digest_own(folder, rank)
    return folder


def made(folder: Path, name: str = "file", inputs: Mapping[str, object] | None = None) -> Marker:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("content")
    digests = manifest.digest_folder(folder, (marker.NAME,))
    found = Marker(inputs=marker.plain(inputs or IDENTITY), manifest=digests)
    marker.write(folder, found)
    return found


def steps(found: list[checkpoint.Checkpoint]) -> list[int]:
    return sorted(each.step for each in found)


def read_marker(root: Path) -> Act:
    made(root / "m")
    return lambda: marker.read(root / "m")


def read_up_to_date(root: Path) -> Act:
    place = root / "models" / "m"
    made(place)

    def never(folder: Path) -> None:
        raise AssertionError("made again")

    return lambda: output.produce("t", "m", place, IDENTITY, never, skip=False, holder="h").state


def read_skipped(root: Path) -> Act:
    made(root / "m")
    return lambda: output.trusted("download", "m", root / "m").digest


def resume_partial(root: Path) -> Act:
    folder = output.partial_path(root / "m")
    folder.mkdir()
    (folder / "downloaded").write_text("60 GB")
    (folder / output.RECORD).write_text(json.dumps(IDENTITY))
    return lambda: output.begin(folder, dict(IDENTITY))


def refuse_foreign(root: Path) -> Act:
    made(root / "m")
    return lambda: output.refuse_foreign("download", root / "m")


def newest(root: Path) -> Act:
    work = workspace(root)
    return lambda: checkpoint.newest(work.checkpoints)


def complete(root: Path) -> Act:
    work = workspace(root)
    return lambda: steps(checkpoint.complete(work.checkpoints))


def choose(root: Path) -> Act:
    work = workspace(root)
    return lambda: resume.choose(work.checkpoints, 10.0)


def next_attempt(root: Path) -> Act:
    work = workspace(root)
    return lambda: attempt.next_attempt(work)


def keep_identity(root: Path) -> Act:
    work = workspace(root)

    def act() -> object:
        attempt.keep_identity(work, IDENTITY)
        return json.loads(work.inputs.read_bytes())

    return act


def rotate(root: Path) -> Act:
    work = workspace(root, (100, 200, 300, 400))
    retention.prepare(work.checkpoints / "checkpoint-50")
    saved(work, 50)

    def act() -> object:
        retention.apply(work.checkpoints, 2, KEEP)
        return None  # what it has deleted is compared by the matrix

    return act


def seal(root: Path) -> Act:
    work = workspace(root, (100,))
    folder = saved(work, 200)
    return lambda: bool(checkpoint.seal(folder, 200))


def prepare_save(root: Path) -> Act:
    work = workspace(root, (100,))
    other = Workspace(root=root, run="dpo-7")
    other.checkpoints.mkdir(parents=True)
    other.inputs.write_text(json.dumps({"recipe": "b"}))
    checkpoint.seal(saved(other, 200), 200)
    (other.checkpoints / "checkpoint-200").rename(work.checkpoints / "checkpoint-200")

    def act() -> object:
        retention.prepare(work.checkpoints / "checkpoint-200")
        return [p.name.partition(".kept")[0] for p in lookup.matching(work.checkpoints, "*")]

    return act


def is_exported(root: Path) -> Act:
    work = workspace(root, ())
    made(work.export, "config.json", IDENTITY)
    return lambda: export.is_exported(work, RECIPE, IDENTITY)


def write_export(root: Path) -> Act:
    work = workspace(root)
    return lambda: export.export(work, RECIPE, IDENTITY, holder="h").digest


def export_source(root: Path) -> Act:
    work = workspace(root)
    return lambda: sorted(export.files_of(export.newest(work)))


def history(root: Path) -> Act:
    work = workspace(root)
    (work.attempts / "1" / "termination-0.json").write_text('{"code": 74, "id": "x"}')
    work.metrics.write_text("")
    return lambda: attempt_record.history(work)


def read_evaluations(root: Path) -> Act:
    one = Evaluation(step=1, total=9, attempt=1, time=1.0, seconds=2.0, values={"loss": 0.7})
    (root / "metrics.jsonl").write_text(evaluations.line(one) + "\n")
    return lambda: reader.read(root / "metrics.jsonl", Evaluation)


def await_outputs(root: Path) -> Act:
    digest = marker.digest(made(root / "m"))
    return lambda: visible_outputs.await_outputs([(str(root / "m"), digest)])


def share_workspace(root: Path) -> Act:
    nonce = gang_probes.write_nonce(root / "attempt")

    def act() -> object:
        seen = gang_probes.read_nonce(root / "attempt" / gang_probes.NONCE_FILE)
        times = {"sent": 0.0, "heard": 0.0, "said": 0.0, "got": 0.0}
        answer = gang_checks.Answer(name="1", nonce=seen, port="", gpu_model="", **times)
        (found,) = gang_checks.shared([answer], nonce)
        if found.state == "failed":
            error = failure([found], "rank 0")
            assert error is not None
            raise error
        return found.state

    return act


def open_reference(root: Path) -> Act:
    work = workspace(root, ())
    (root / "m").mkdir()
    (root / "m" / "config.json").write_text("{}")
    given: dict[str, Any] = {"model": str(root / "m"), "ref_model": str(root / "m"), "dataset": []}
    first = SimpleNamespace(**given, external_plugins=[], mcore_model=None)
    machine = Machine(versions={})
    opened = run_store.open_store(work.home, first, 0, machine)
    store.complete(opened.folder, {b"i" * 16: (-1.0, -2.0)}, {"seconds": 1})
    run_store.record(work.home, opened)
    resumed = SimpleNamespace(**given, external_plugins=[], mcore_model=str(work.checkpoints))
    return lambda: run_store.open_store(work.home, resumed, 900, machine).source


def reference_parts(root: Path) -> Act:
    store.begin(root / "s", {"a": "1"})
    store.add_part(root / "s", {b"i" * 16: (-1.0, -2.0)})
    return lambda: store.read_parts(root / "s")


def hold_lock(root: Path) -> Act:
    def act() -> object:
        with Lock(root / "lock", "pod") as lock:
            lock.check()
        return None

    return act


def use_in_place(root: Path) -> Act:
    (root / "data").mkdir()
    (root / "data" / "pairs.jsonl").write_text("{}\n")
    source = parse_source(f"file://{root / 'data'}", "recipe.dataset")
    local_files.use_in_place(source, root / "home", holder="h")
    return lambda: local_files.use_in_place(source, root / "home", holder="h").digest


def expert_parallel(root: Path) -> Act:
    (root / "config.json").write_text('{"num_experts": 8}')
    return lambda: convert.expert_parallel(root, 4)


def begin_rehearsal(root: Path) -> Act:
    work = workspace(root)
    fields = {"digest": "d", "state": "running", "stage": "train"}
    work.progress.write_text(json.dumps(fields))
    launch: Any = SimpleNamespace(work=work, rehearse=True)
    return lambda: rehearse.begin(launch, "d")


def finish_pending(root: Path) -> Act:
    work = workspace(root, (100,))
    folder = saved(work, 200)
    node_disk.announce(folder, [checkpoint.rank_digests(folder, rank) for rank in range(2)])

    def act() -> object:
        node_disk.finish(work.checkpoints)
        return checkpoint.newest(work.checkpoints)

    return act


def make_room(root: Path) -> Act:
    work = workspace(root)
    for step in (200, 300):
        (root / "local" / f"checkpoint-{step}").mkdir(parents=True)
        (root / "local" / f"checkpoint-{step}" / "shard").write_text("x")

    def act() -> object:
        with suppress(OSError, LaunchError):  # as ``training/saving/staging.py``, which needs torch
            node_disk.make_room(root / "local", work.checkpoints)
        return None

    return act


def read_json(root: Path) -> Act:
    (root / "progress.json").write_text('{"step": 1}')
    return lambda: atomic_file.read_object(root / "progress.json")


OPERATIONS = tuple(
    Operation(name.replace("_", " "), each)
    for name, each in [*globals().items()]
    if getattr(each, "__annotations__", {}).get("return") is Act
)
"""All functions above that return an act."""
