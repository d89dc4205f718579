"""Checkpoints of a run: seal one, find the newest that is complete.

ms-swift's own tracker file is written before the checkpoint is complete
(``swift/megatron/utils/megatron_lm_utils.py``, ``swift/megatron/trainers/base.py``), so only the
launcher's manifest counts: ``COMPLETE.json``, written last, once all ranks have saved. It lists all
files with their sizes, and digests of their chunks (``chunk_digests.py``), and names the run and
its inputs: a checkpoint copied from another run is not chosen. A run whose whole folder was moved
to another name is the same run: its past attempts name the one before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.checkpoint_owner import other_run
from launchers.config.workspace import Workspace
from launchers.storage import chunk_digests, disk, manifest, run_lease
from launchers.storage.chunk_digests import Comparison
from launchers.system.atomic_file import FOREIGN, flush, partial_of, read_object, replace

COMPLETE = "COMPLETE.json"
FEATURES = "features.json"
"""File with the launcher's features that trained it, see ``training/loading.py``; not exported."""
DAMAGED = "DAMAGED.json"
"""Written into a checkpoint whose files differ from their digests; no run resumes from it."""
PENDING = "PENDING.json"
"""Written into a checkpoint once all ranks have written it, if some did on their node's disk; see
``node_disk.py``."""
START = "start.json"
"""What rank 0 notes when an attempt starts to train: the step it began from, and the run's name."""
SEAL_SECONDS = 10.0
"""Time in which a seal digests what the ranks that wrote it have not: training waits for it."""
_FOLDER = re.compile(r"checkpoint-(\d+)")
_RANK_DIGESTS = ".digests-{}"
_NOTE = re.compile(r"\.+digests-")
"""A rank's digests, and the file that becomes them: a launcher may write them during the seal."""
_RANK_SHARDS = "__{}_*.distcp"
"""Files of a global rank in PyTorch's distributed format (``torch/distributed/checkpoint``)."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint."""

    path: Path
    step: int

    @property
    def has_megatron_state(self) -> bool:
        """Return whether it holds Megatron's distributed checkpoint (weights, optimizer)."""
        return any(self.path.glob("iter_*/.metadata"))

    @property
    def owes_evaluation(self) -> bool:
        """Return whether the run was stopped before the evaluation of its step had ended."""
        return bool(read_object(self.path / FEATURES).get("owes_evaluation"))

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
    """``checkpoint-unsealed``, ``-seal``, ``-step``, ``-foreign``, ``-file`` or ``-damaged``."""
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
    """Return the folder in which ms-swift puts the model merged with a checkpoint's adapter.

    >>> merged(Path("checkpoints/checkpoint-8")).name
    'checkpoint-8-merged'
    """
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

    Args:
        folder: ``checkpoint-<step>``.
        rank: the global rank of this process.
        seconds: time limit.
    """
    shards = sorted(folder.rglob(_RANK_SHARDS.format(rank)))
    if shards:
        sizes = _sizes(folder, shards)
        found = {"sizes": sizes, "digests": chunk_digests.digest(folder, sizes, seconds)}
        replace(rank_note(folder, rank), json.dumps(found))


def rank_digests(folder: Path, rank: int) -> dict[str, dict[str, Any]]:
    """Return what ``digest_own`` has noted: sizes and digests by name; empty if it has not."""
    return read_object(rank_note(folder, rank))


def rank_note(folder: Path, rank: int) -> Path:
    """Return the file in which ``digest_own`` notes a rank's digests until the seal."""
    return folder / _RANK_DIGESTS.format(rank)


def rank_notes(folder: Path) -> list[Path]:
    """Return the notes of all ranks in a folder."""
    return list(folder.glob(_RANK_DIGESTS.format("*")))


def unseal(folder: Path) -> None:
    """Withdraw a checkpoint that is about to be overwritten."""
    if folder.is_dir():
        run_lease.check()
        for name in (COMPLETE, PENDING):
            (folder / name).unlink(missing_ok=True)
        flush(folder)


def seal(folder: Path, step: int) -> Path:
    """Mark a checkpoint complete: flush it, then write its manifest atomically.

    Args:
        folder: ``checkpoint-<step>``, written in full by all ranks.
        step: number of completed optimizer steps.
    """
    run_lease.check()
    (folder / COMPLETE).unlink(missing_ok=True)  # of a checkpoint that was damaged
    known = _take_rank_digests(folder)
    disk.flush_tree(folder)
    flush(folder.parent)
    (folder / DAMAGED).unlink(missing_ok=True)
    own = (COMPLETE, DAMAGED, PENDING, partial_of(folder / COMPLETE).name)
    files = [p for p in manifest.files(folder, own) if p.is_file() and not _NOTE.match(p.name)]
    sizes = _sizes(folder, files)
    valid = {name: text for name, (size, text) in known.items() if sizes.get(name) == size}
    digests = chunk_digests.digest(folder, sizes, SEAL_SECONDS, valid)
    done, chunks = chunk_digests.covered(digests.values())
    if done < chunks:
        logs.warning("checkpoint digested in part", path=folder, chunks=done, of=chunks)
    path = folder / COMPLETE
    document = {"step": step, "files": sizes, "digests": digests, **_identity(folder)}
    run_lease.check()
    replace(path, json.dumps(document, indent=1) + "\n")
    (folder / PENDING).unlink(missing_ok=True)
    return path


def _identity(folder: Path) -> dict[str, Any]:
    """Return the name and the inputs of the run that a checkpoint is in; empty outside a run."""
    work = Workspace.of(folder.parent.parent)
    inputs = read_object(work.inputs)
    return {"run": work.run, "inputs": inputs} if inputs else {}


def _sizes(folder: Path, files: list[Path]) -> dict[str, int]:
    return {p.relative_to(folder).as_posix(): p.stat().st_size for p in files}


def _take_rank_digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Read and remove the ranks' digests: size and digests by name."""
    found: dict[str, tuple[int, str]] = {}
    for path in rank_notes(folder):
        document = json.loads(path.read_text(encoding="utf-8"))
        for name, text in document["digests"].items():
            found[name] = (document["sizes"][name], text)
        path.unlink()
    return found


def newest(checkpoints: Path) -> Checkpoint | None:
    """Return the complete checkpoint of the highest step, or None."""
    return max(complete(checkpoints), key=lambda c: c.step, default=None)


def complete(checkpoints: Path) -> list[Checkpoint]:
    """Return all complete checkpoints, in no order."""
    found = (inspect(path) for path in checkpoints.glob("checkpoint-*"))
    return [each for each in found if isinstance(each, Checkpoint)]


def rejected(checkpoints: Path) -> list[Rejected]:
    """Return the folders that look like checkpoints and are not complete, by name."""
    folders = [p for p in sorted(checkpoints.glob("checkpoint-*")) if step_of(p) >= 0]
    return [found for p in folders if isinstance(found := inspect(p), Rejected)]


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the checkpoint in ``folder`` if it is complete."""
    found = inspect(folder)
    return found if isinstance(found, Checkpoint) else None


def inspect(folder: Path) -> Checkpoint | Rejected:
    """Return the checkpoint in ``folder``, or why no run may resume from it.

    A save or a rotation was interrupted if the manifest or a listed file is missing, or if a file
    has another size.
    """
    found = _inspect(folder)
    if isinstance(found, Rejected):
        return found
    if step_of(folder) != found.step:
        return Rejected(
            path=folder, id="checkpoint-step", cause=f"{COMPLETE} is that of step {found.step}"
        )
    if other := _foreign(folder, found):
        return Rejected(path=folder, id="checkpoint-foreign", cause=other)
    return Checkpoint(path=folder, step=found.step)


def _inspect(folder: Path) -> _Seal | Rejected:
    def no(id: str, cause: str) -> Rejected:
        return Rejected(path=folder, id=id, cause=cause)

    try:
        if (folder / DAMAGED).exists():
            return no("checkpoint-damaged", f"{DAMAGED} says why")
        found = _parse((folder / COMPLETE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return no("checkpoint-unsealed", f"it has no {COMPLETE}: the save did not end")
    except (OSError, *FOREIGN) as error:
        return no("checkpoint-seal", f"{COMPLETE} cannot be read: {error!r}")
    if wrong := _wrong_size(folder, found.sizes):
        return no("checkpoint-file", wrong)
    return found


def _foreign(folder: Path, seal: _Seal) -> str:
    """Return the other run that a checkpoint belongs to; empty if it is this run's or unknown."""
    work = Workspace.of(folder.parent.parent)
    starts = work.attempts.glob(f"*/{START}")
    names = {work.run, *(str(read_object(path).get("run", "")) for path in starts)}
    manifest = {"run": seal.run, "inputs": seal.inputs}
    return other_run(manifest, read_object(work.inputs), names)


def _wrong_size(folder: Path, sizes: Mapping[str, int]) -> str:
    """Name the first file that is missing or has another size; empty if there is none."""
    for name, size in sizes.items():
        try:
            actual = (folder / name).stat().st_size
        except OSError as error:
            return f"{name}: {error.strerror}"
        if actual != size:
            return f"{name} has {actual} bytes, not {size}"
    return ""


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
        OSError, ValueError: a file or the manifest cannot be read.
    """
    found = _parse((folder / COMPLETE).read_text(encoding="utf-8"))
    return chunk_digests.compare(
        folder, found.sizes, found.digests, seconds, part=part, parts=parts, seed=seed
    )


def sealed_files(folder: Path) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return the sizes and the digests of a complete checkpoint's files, by name.

    Raises:
        OSError, ValueError: the manifest cannot be read.
    """
    found = _parse((folder / COMPLETE).read_text(encoding="utf-8"))
    return found.sizes, found.digests


def condemn(folder: Path, cause: str) -> None:
    """Note that a checkpoint is damaged: no run resumes from it until the note is removed."""
    replace(folder / DAMAGED, json.dumps({"cause": cause}) + "\n")
