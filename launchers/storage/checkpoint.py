"""Checkpoints of a run: seal one, find the newest that is complete.

ms-swift's own tracker file is written before the checkpoint is complete
(``swift/megatron/utils/megatron_lm_utils.py``, ``swift/megatron/trainers/base.py``), so only the
launcher's manifest counts: ``COMPLETE.json``, written last, once all ranks have saved. It lists all
files with their sizes, and digests of their chunks (``chunk_digests.py``), and names the run and
its inputs: a checkpoint copied from another run is not chosen. A run whose whole folder was moved
to another name is the same run: its past attempts name the one before.

All questions to the workspace are those of ``system/lookup.py``: a checkpoint that cannot be read
is neither complete nor incomplete, and the launcher ends with ``Exit.IO``.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.workspace import Workspace
from launchers.storage import chunk_digests, disk, manifest, marker, run_lease, seal_check
from launchers.storage.chunk_digests import Comparison
from launchers.system import atomic_file, lookup
from launchers.system.atomic_file import FOREIGN, flush, partial_of, read_object, replace

COMPLETE = "COMPLETE.json"
FEATURES = "features.json"
"""File with the features that trained it (``training/checkpoint_record.py``); not exported."""
DAMAGED = "DAMAGED.json"
"""Written into a checkpoint whose files differ from their digests; no run resumes from it."""
PENDING = "PENDING.json"
"""Written into a checkpoint once all ranks have written it, if some did on their node's disk; see
``node_disk.py``."""
SAVING = ".saving"
"""The mark of a save: run, inputs, step and attempt, written when it begins; without suffix, so
that no export has it. A folder without a seal is this run's only with the run's mark."""
UNSEALED, OTHER_RUN, TORN = "checkpoint-unsealed", "checkpoint-foreign", "checkpoint-seal"
CONDEMNED = "checkpoint-damaged"
"""Ids of a folder without a seal, of one that is not of the run which holds it, of one whose seal
is torn, and of one with a note of its damage."""
START = "start.json"
"""What rank 0 notes when an attempt starts to train: the step it began from, and the run's name."""
SEAL_SECONDS = 10.0
"""Time in which a seal digests what the ranks that wrote it have not: training waits for it."""
_FOLDER = re.compile(r"checkpoint-(\d+)")
_RANK_DIGESTS = ".digests-{}"
_NOTE = re.compile(r"\.+digests-")
"""A rank's digests, and the file that becomes them: a launcher may write them during the seal."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint."""

    path: Path
    step: int

    @property
    def has_megatron_state(self) -> bool:
        """Return whether it holds Megatron's distributed checkpoint (weights, optimizer)."""
        return any(
            lookup.exists(p / seal_check.INDEX) for p in lookup.matching(self.path, "iter_*")
        )

    @property
    def owes_evaluation(self) -> bool:
        """Return whether the run was stopped before the evaluation of its step had ended."""
        return bool(self.features.get("owes_evaluation"))

    @property
    def features(self) -> dict[str, Any]:
        """Return the record of the software that saved it; empty if an older launcher did."""
        remedy = f"restore it, or remove {self.path.name}"
        return atomic_file.known_object(self.path / FEATURES, remedy)

    @property
    def is_merged_whole(self) -> bool:
        """Return whether the merged model of an adapter's checkpoint is complete."""
        found = _inspect(merged(self.path))
        return not isinstance(found, Rejected) and found.step == self.step


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A folder from which no run may resume."""

    path: Path
    id: str
    """``UNSEALED``, ``OTHER_RUN``, ``TORN``, ``CONDEMNED``, ``checkpoint-step`` or ``-file``."""
    cause: str


@dataclass(frozen=True, kw_only=True)
class _Seal:
    """Content of ``COMPLETE.json``."""

    step: int
    sizes: Mapping[str, int]
    digests: Mapping[str, str]
    """Empty in a checkpoint of an older launcher."""
    run: str
    """Name of the run that wrote it; empty in a checkpoint of an older launcher."""
    inputs: Mapping[str, Any]
    """The run's ``inputs.json``: digests of its recipe, model and data."""


def merged(folder: Path) -> Path:
    """Return the folder in which ms-swift puts the model merged with a checkpoint's adapter."""
    return folder.with_name(f"{folder.name}-merged")


def step_of(folder: Path) -> int:
    """Return the step in the name of a checkpoint's folder; -1 for another name.

    >>> step_of(Path("checkpoint-8")), step_of(Path("checkpoint-8-merged"))
    (8, -1)
    """
    match = _FOLDER.fullmatch(folder.name)
    return int(match.group(1)) if match else -1


def digest_own(folder: Path, rank: int, seconds: float = SEAL_SECONDS) -> None:
    """Digest the shards that a rank has written, while they are in its node's page cache.

    ``seal`` takes the result over. 16 ranks share a checkpoint of 427 GB: 27 GB each.
    ``rank`` is global, ``seconds`` a limit.
    """
    sizes = seal_check.sizes_of(folder, _shards(folder, rank))
    if sizes:
        found = {"sizes": sizes, "digests": _digests(folder, sizes, seconds)}
        replace(rank_note(folder, rank), json.dumps(found))


def _shards(folder: Path, rank: int) -> list[Path]:
    pattern = f"__{rank}_*{seal_check.SHARDS}"
    return [path for path in manifest.files(folder) if fnmatchcase(path.name, pattern)]


def _digests(
    folder: Path, sizes: Mapping[str, int], seconds: float, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    return lookup.existing(lambda: chunk_digests.digest(folder, sizes, seconds, known), folder)


def rank_digests(folder: Path, rank: int) -> dict[str, dict[str, Any]]:
    """Return what ``digest_own`` has noted: sizes and digests by name; empty if it has not."""
    return read_object(rank_note(folder, rank))


def rank_note(folder: Path, rank: int) -> Path:
    """Return the file in which ``digest_own`` notes a rank's digests until the seal."""
    return folder / _RANK_DIGESTS.format(rank)


def rank_notes(folder: Path) -> list[Path]:
    """Return the notes of all ranks in a folder."""
    return lookup.matching(folder, _RANK_DIGESTS.format("*"))


def unseal(folder: Path) -> None:
    """Withdraw a checkpoint; it stays marked as one of its run."""
    if lookup.is_dir(folder):
        run_lease.check()
        if lookup.exists(folder / COMPLETE):
            (folder / COMPLETE).rename(folder / SAVING)
        (folder / PENDING).unlink(missing_ok=True)
        flush(folder)


def mark(folder: Path) -> None:
    """Note in a folder that a save of this run has begun there."""
    attempt = Path(os.environ.get("DPO_ATTEMPT_FOLDER", "")).name
    own = {"step": step_of(folder), "run": _work(folder).run, "attempt": attempt}
    disk.make_folder(folder)
    replace(folder / SAVING, json.dumps(own | _identity(folder)) + "\n")


def seal(folder: Path, step: int) -> Path | None:
    """Mark a checkpoint complete: flush it, compare it, then write its manifest atomically.

    The seal is refused where the files are not what their ranks have noted (name, size, digest) or
    what torch's index names: a shard is missing, cut or changed, or no rank has noted it. The log
    names the file, the folder stays without a seal, and training continues: the caller deletes no
    older checkpoint then. A checkpoint without notes and index is sealed as it is listed.
    All ranks have written ``folder``, ``checkpoint-<step>``, in full.

    Returns:
        The manifest; None if the seal is refused.

    Raises:
        OSError, LaunchError: the workspace fails.
    """
    run_lease.check()
    (folder / COMPLETE).unlink(missing_ok=True)  # of a checkpoint that was damaged
    disk.flush_tree(folder)
    flush(folder.parent)
    sizes, notes = seal_check.sizes_of(folder, _held(folder)), rank_notes(folder)
    wrong, known = seal_check.disagreement(folder, sizes, map(read_object, notes))
    if wrong:
        logs.warning("checkpoint not sealed", id="checkpoint-not-sealed", path=folder, cause=wrong)
        return None
    (folder / DAMAGED).unlink(missing_ok=True)
    digests = _digests(folder, sizes, SEAL_SECONDS, known)
    done, chunks = chunk_digests.covered(digests.values())
    if done < chunks:
        logs.warning("checkpoint digested in part", path=folder, chunks=done, of=chunks)
    path = folder / COMPLETE
    document = {"step": step, "files": sizes, "digests": digests, **_identity(folder)}
    run_lease.check()
    replace(path, json.dumps(document, indent=1) + "\n")
    for note in (*notes, folder / PENDING):
        note.unlink(missing_ok=True)
    return path


def _held(folder: Path) -> Iterator[Path]:
    own = (COMPLETE, DAMAGED, PENDING, SAVING, partial_of(folder / COMPLETE).name)
    return (p for p in manifest.files(folder, own) if not _NOTE.match(p.name))


def strangers(folder: Path) -> list[Path]:
    """Return the files in a sealed folder that its seal does not list: a user has put them there.

    None without a seal: which files are a save's is not known then.
    """
    found = _read_seal(folder)
    sizes = found.sizes if isinstance(found, _Seal) else None
    listed = () if sizes is None else _held(folder)
    return [path for path in listed if path.relative_to(folder).as_posix() not in (sizes or ())]


def _identity(folder: Path) -> dict[str, Any]:
    """Return the name and the inputs of the run that a checkpoint is in; empty outside a run."""
    work = _work(folder)
    inputs = read_object(work.inputs)
    return {"run": work.run, "inputs": inputs} if inputs else {}


def _work(folder: Path) -> Workspace:
    return Workspace.of(folder.parent.parent)


def folders(checkpoints: Path) -> list[Path]:
    """Return the folders with the name of a checkpoint, the highest step first."""
    found = (p for p in lookup.matching(checkpoints, "checkpoint-*") if step_of(p) >= 0)
    return sorted(found, key=step_of, reverse=True)


def newest(checkpoints: Path) -> Checkpoint | None:
    """Return the complete checkpoint of the highest step, or None."""
    return newest_and_rejected(checkpoints)[0]


def newest_and_rejected(checkpoints: Path) -> tuple[Checkpoint | None, list[Rejected]]:
    """Return the newest complete checkpoint, and the folders of higher steps that are not complete.

    Older ones are not read: one that cannot be read does not end the run.
    """
    rejected: list[Rejected] = []
    for folder in folders(checkpoints):
        found = inspect(folder)
        if isinstance(found, Checkpoint):
            return found, rejected
        rejected.append(found)
    return None, rejected


def complete(checkpoints: Path) -> list[Checkpoint]:
    """Return all complete checkpoints, in no order."""
    return [each for each in map(inspect, folders(checkpoints)) if isinstance(each, Checkpoint)]


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in ``folder`` if it is complete."""
    found = inspect(folder)
    return found if isinstance(found, Checkpoint) else None


def inspect(folder: Path) -> Checkpoint | Rejected:
    """Return the checkpoint in ``folder``, or why no run may resume from it.

    A save or a rotation was interrupted if the manifest or a listed file is missing, or if a file
    has another size.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    found = _inspect(folder)
    if isinstance(found, Rejected):
        return found
    if step_of(folder) != found.step:
        return Rejected(
            path=folder, id="checkpoint-step", cause=f"{COMPLETE} is that of step {found.step}"
        )
    if other := _foreign(folder, vars(found)):
        return Rejected(path=folder, id=OTHER_RUN, cause=other)
    return Checkpoint(path=folder, step=found.step)


def foreign(folder: Path) -> str:
    """Return why a folder is not known to be a checkpoint or merged model of its run; or nothing.

    It has the seal or the mark of another run, or neither: a user has copied it in, or an earlier
    version, which wrote no marks, has left it. A crash may leave one without a file.
    """
    found = _read_seal(folder)
    noted = vars(found) if isinstance(found, _Seal) else read_object(folder / SAVING)
    if not any(manifest.files(folder, (partial_of(folder / SAVING).name,))):
        return ""
    if noted.get("step") != step_of(folder.with_name(folder.name.removesuffix("-merged"))):
        return "no save of this run has marked it; remove it if you do not need it"
    return _foreign(folder, noted)


def _inspect(folder: Path) -> _Seal | Rejected:
    if lookup.exists(folder / DAMAGED):
        return Rejected(path=folder, id=CONDEMNED, cause=f"{DAMAGED} says why")
    found = _read_seal(folder)
    if isinstance(found, _Seal) and (wrong := manifest.wrong_size(folder, found.sizes)):
        return Rejected(path=folder, id="checkpoint-file", cause=wrong)
    return found


def _read_seal(folder: Path) -> _Seal | Rejected:
    try:
        text = lookup.text(folder / COMPLETE)
        if text is not None:
            return _parse(text)
    except FOREIGN as error:
        return Rejected(path=folder, id=TORN, cause=f"{COMPLETE} cannot be read: {error!r}")
    return Rejected(path=folder, id=UNSEALED, cause=f"it has no {COMPLETE}: the save did not end")


def _foreign(folder: Path, mark: Mapping[str, Any]) -> str:
    """Return the other run that a checkpoint belongs to; empty if it is this run's or unknown.

    ``mark`` is its manifest, in which an older launcher named no run. Inputs and names are those of
    the run that holds it; in its attempts it may have had other names, if its folder was moved.
    """
    work = _work(folder)
    inputs = marker.begun_with(work)
    run, saved = mark.get("run"), mark.get("inputs")
    if not run or not inputs:
        return ""
    made_of = saved if isinstance(saved, Mapping) else {}
    if changed := sorted(k for k in {*inputs, *made_of} if inputs.get(k) != made_of.get(k)):
        return f"it is of run {run}, with another {', '.join(changed)}"
    starts = (work.attempts / name / START for name in lookup.entries(work.attempts))
    remedy = "remove it, if the run's folder was not moved in that attempt"
    before = (atomic_file.known_object(path, remedy).get("run") for path in starts)
    return "" if run == work.run or run in before else f"it is of run {run}"


def _parse(text: str) -> _Seal:
    document: dict[str, Any] = json.loads(text)
    sizes = {str(name): int(size) for name, size in document["files"].items()}
    if not sizes:
        raise ValueError("it lists no file")
    return _Seal(
        step=int(document["step"]),
        sizes=sizes,
        digests=dict(document.get("digests", {})),
        run=str(document.get("run", "")),
        inputs=dict(document.get("inputs", {})),
    )


def verify(
    folder: Path, seconds: float, *, part: int = 0, parts: int = 1, seed: int = 0
) -> Comparison:
    """Compare a complete checkpoint with the digests in its manifest; see ``compare``.

    Raises:
        OSError, ValueError, LaunchError: a file or the manifest cannot be read.
    """
    sizes, digests = sealed_files(folder)
    return chunk_digests.compare(folder, sizes, digests, seconds, part=part, parts=parts, seed=seed)


def sealed_files(folder: Path) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return the sizes and the digests of a complete checkpoint's files, by name.

    Raises:
        ValueError, LaunchError: the manifest cannot be read, or is gone.
    """
    path = folder / COMPLETE
    found = _parse(lookup.existing(lambda: path.read_text(encoding="utf-8"), path))
    return found.sizes, found.digests


def condemn(folder: Path, cause: str) -> None:
    """Note that a checkpoint is damaged: no run resumes from it until the note is removed."""
    replace(folder / DAMAGED, json.dumps({"cause": cause}) + "\n")
