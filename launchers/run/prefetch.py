"""Prefetch of the weights into this node's page cache, while the ranks still start.

Training maps the files and reads them tensor by tensor, about 40 s after the gang started: with a
cold cache each page then waits for 128 KiB of readahead. Measured on a local disk, 1 GiB of random
3 MiB pieces: cold 1.2 to 1.5 s, prefetched 3 s before 0.5 s, warm 0.4 s. The prefetch takes 0.5 s
a GiB, and no time when the pages are already cached.

Importing the training's modules beforehand, in a process of its own, was measured, too:
``import swift.pipelines.train.rlhf`` took the same time within its spread with the page cache
evicted and not (11.7 to 16.4 s against 11.9 to 14.2 s), so it is not done.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from launchers import logs
from launchers.system.host_memory import available

REQUEST_BYTES = 2 * 1024**2
"""Size of one request: of larger ones the kernel read only a part."""
MEMORY_SHARE = 0.5
"""Share of the available memory to fill; the ranks need the rest."""


def weights(folder: Path) -> list[Path]:
    """List the weight files of a model or checkpoint, in the order in which training reads them."""
    return sorted(folder.rglob("*.distcp")) or sorted(folder.glob("*.safetensors"))


def fitting(sizes: Sequence[tuple[Path, int]], limit: int) -> list[tuple[Path, int]]:
    """Return the first files whose total size is at most ``limit`` bytes.

    >>> fitting([(Path("a"), 4), (Path("b"), 4), (Path("c"), 4)], 9)
    [(PosixPath('a'), 4), (PosixPath('b'), 4)]
    """
    kept, total = [], 0
    for path, size in sizes:
        total += size
        if total > limit:
            break
        kept.append((path, size))
    return kept


@contextmanager
def prefetching(folders: Sequence[Path]) -> Iterator[None]:
    """Prefetch the weights of these folders in a thread; the end of the block stops it."""
    ended = threading.Event()
    threading.Thread(target=_prefetch, args=(folders, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _prefetch(folders: Sequence[Path], ended: threading.Event) -> None:
    try:
        files = [path for folder in folders for path in weights(folder)]
        limit = int(MEMORY_SHARE * available())
        chosen = fitting([(path, path.stat().st_size) for path in files], limit)
        for path, size in chosen:
            _request(path, size, ended)
        if not ended.is_set():
            total = sum(size for _, size in chosen)
            logs.info("weights requested", files=len(chosen), of=len(files), bytes=total)
    except OSError as error:
        logs.warning("weights not requested", cause=error)


def _request(path: Path, size: int, ended: threading.Event) -> None:
    """Request one file; a file system without support ignores the request."""
    handle = os.open(path, os.O_RDONLY)
    try:
        for start in range(0, size, REQUEST_BYTES):
            if ended.is_set():
                return
            with contextlib.suppress(OSError):
                os.posix_fadvise(handle, start, REQUEST_BYTES, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(handle)
