"""The held-out rows of one evaluation: each once, the same ones every time, in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from launchers.exits import Exit, LaunchError


def microbatches(
    rows: int, *, micro: int, replicas: int, most: int | None = None, multiple: int = 1
) -> int:
    """Return the microbatches of each replica in an evaluation.

    Rows that do not fill a microbatch of all replicas are left out, the same ones every time.
    ``most`` is an upper bound, None for all rows; ``multiple`` microbatches run together.

    Raises:
        LaunchError: DATA if no round of all replicas is full: upstream would not evaluate, without
            a message (``megatron_args.py``, ``init_iters``).

    >>> microbatches(51, micro=1, replicas=8), microbatches(51, micro=1, replicas=8, most=4)
    (6, 4)
    """
    count = rows // (micro * replicas)
    if most is not None:
        count = min(count, most)
    count = count // multiple * multiple
    if not count:
        raise LaunchError(
            Exit.DATA,
            f"recipe.args.split_dataset_ratio: the held-out rows make {rows} rows or packs, and an "
            f"evaluation requires {micro * replicas * multiple} (micro_batch_size {micro} x "
            f"{replicas} replicas" + (f" x {multiple})" if multiple > 1 else ")"),
            "raise split_dataset_ratio, or set it to 0 to train without evaluation",
            id="held-out-too-few",
        )
    return count


def in_parts(
    schedule: Callable[..., list[Any]], size: int, callbacks: list[Any]
) -> Callable[..., list[Any]]:
    """Return Megatron's schedule that runs the microbatches in parts.

    Between two parts no rank sends or receives, so the run can save and stop there.
    Callbacks with ``end_part`` are called after each part of ``size`` but the last one.
    """

    def run(*, num_microbatches: int, **given: Any) -> list[Any]:
        found = schedule(num_microbatches=min(size, num_microbatches), **given)
        for done in range(size, num_microbatches, size):
            for each in callbacks:
                getattr(each, "end_part", bool)()
            found += schedule(num_microbatches=min(size, num_microbatches - done), **given)
        return found

    return run


class HeldOut:
    """An iterator over a replica's held-out microbatches, which each evaluation restarts."""

    def __init__(self, loader: Iterable[Any]) -> None:
        """Read from a loader that yields the same microbatches each time."""
        self._loader = loader
        self._left: Iterator[Any] = iter(())

    def restart(self) -> None:
        """Begin again with the first microbatch."""
        self._left = iter(self._loader)

    def stop(self) -> None:
        """Drop the loader's workers: the rest of the rows is not read."""
        self._left = iter(())

    def __iter__(self) -> HeldOut:
        """Return the iterator itself."""
        return self

    def __next__(self) -> Any:
        """Return the next microbatch."""
        return next(self._left)
