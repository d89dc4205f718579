"""Copy the small files of a run through a pod into a temporary folder, as a workspace of its own.

Large files are holes of their sizes there, so that code for a mounted workspace reads it too.
"""

import base64
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from launchers.config.workspace import Workspace
from launchers.state import files
from scripts.doctor.api import Api
from scripts.observe.pods import home_in_pod
from scripts.observe.source import ask, may_have_files
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import Problem

SECONDS = 300.0
"""Limit of a copy by exec."""
EXEC_BYTES = 256 * 2**20
LOG_BYTES = 6 * 2**20
"""Limits of the packed files. A reader pod prints them into its log, of which the kubelet keeps
10 MiB by default (`containerLogMaxSize`)."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A run's files on this machine, until the block ends."""

    work: Workspace
    how: str
    """The way they were read, as text."""


@contextmanager
def copied(
    api: Api, view: View, patterns: Sequence[str], *, source: Source = Source.AUTO, cut: int = 0
) -> Iterator[Copy]:
    """Copy a run's files in the first way that works.

    ``patterns`` are of names in the folder; of a file ``cut`` bytes of both ends stay, 0: all.

    Raises:
        Problem: no way works, or the run has no files.
    """
    if not view.gang or not may_have_files(view):
        raise Problem(f"no pod of run {view.run} mounts its workspace (namespace {view.namespace})")
    if source in (Source.API, Source.MOUNT):
        raise Problem(f"--source {source} reads no files through a pod")

    def words(is_reader: bool) -> list[str]:
        limit = LOG_BYTES if is_reader else EXEC_BYTES
        request = {"limit": limit, "cut": cut, "patterns": [*patterns]}
        return ["state", "--files", json.dumps(request), home_in_pod(view)]

    packed, how, _ = ask(api, view, source, words, seconds=SECONDS)
    with tempfile.TemporaryDirectory(prefix="megatron-dpo-") as folder:
        work = Workspace(root=Path(folder), run=view.run)
        if unread := unpack(packed, work.home):
            how = f"{how}; not read there: {', '.join(unread)}"
        yield Copy(work=work, how=how)


def unpack(text: bytes, home: Path) -> list[str]:
    """Write an archive of `launchers/state/files.py` into a folder; return what was not read.

    Raises:
        Problem: it is not such an archive, or has a name outside of the folder.
    """
    home.mkdir(parents=True)
    try:
        content = base64.b64decode(text)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            tar.extractall(home, filter="data")
        sizes = json.loads((home / files.SIZES).read_text(encoding="utf-8"))
        (home / files.SIZES).unlink()
        unread = [name for name, size in sizes.items() if size == files.UNREAD]
        for name in sizes.keys() - {*unread}:
            _make_hole(home, PurePosixPath(name), int(sizes[name]))
        return unread
    except (tarfile.TarError, ValueError, AttributeError, EOFError, OSError) as error:
        raise Problem(f"the pod printed no archive of the run: {error}") from None


def _make_hole(home: Path, name: PurePosixPath, size: int) -> None:
    """Make a file of a size without content."""
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{name} is outside of the run's folder")
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as handle:
        handle.truncate(size)
