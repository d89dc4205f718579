"""Kernel times of one step, from a profiler's events. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

TOP = 25
NAME = 90
"""Kept characters of a kernel's name: enough to distinguish template arguments."""


class Kernel(NamedTuple):
    name: str
    start: int
    """In ns."""
    duration: int

    @property
    def is_communication(self) -> bool:
        return self.name.startswith("nccl")


def seen(profiler: Any, *, on_gpu: bool = True) -> list[Kernel]:
    """List what ran on the GPU under torch's profiler, or what the host did."""
    return [
        Kernel(event.name(), event.start_ns(), event.duration_ns())
        for event in profiler.profiler.kineto_results.events()
        if ("CUDA" in str(event.device_type())) == on_gpu
    ]


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the total length of the union of ``(start, end)`` spans.

    >>> covered([(0, 4), (2, 6), (10, 11)])
    7
    """
    total, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total


def summary(events: Iterable[Kernel]) -> dict[str, Any]:
    """Return the step by kind in ms, its longest kernels, and what the GPU waited for longest.

    ``busy`` is the time with any activity, ``compute`` with any but NCCL kernels,
    ``communication`` with NCCL kernels; ``exposed`` is communication without concurrent compute.
    Spans over a kernel that the profiler writes too (``nccl:...``) are left out.
    """
    kernels = [event for event in events if not event.name.startswith(("nccl:", "ProfilerStep"))]
    if not kernels:
        return {"kernels": 0}
    busy = covered(_spans(kernels))
    compute = covered(_spans([k for k in kernels if not k.is_communication]))
    communication = covered(_spans([k for k in kernels if k.is_communication]))
    wall = max(k.start + k.duration for k in kernels) - min(k.start for k in kernels)
    return {
        "wall_ms": _ms(wall),
        "busy_ms": _ms(busy),
        "compute_ms": _ms(compute),
        "communication_ms": _ms(communication),
        "exposed_ms": _ms(busy - compute),
        "kernels": len(kernels),
        "top": _top(kernels),
        "idle": _top([*idle(kernels)]),
    }


def idle(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """Yield each span in which nothing ran, under the name of the kernel that ended it.

    >>> [*idle([Kernel("sort", 7, 2), Kernel("gather", 0, 4), Kernel("add", 1, 2)])]
    [Kernel(name='sort', start=4, duration=3)]
    """
    reached: int | None = None
    for kernel in sorted(kernels, key=attrgetter("start")):
        if reached is not None and kernel.start > reached:
            yield Kernel(kernel.name, reached, kernel.start - reached)
        reached = max(reached or 0, kernel.start + kernel.duration)


def waits(calls: Iterable[Kernel]) -> list[list[Any]]:
    """Return ``[name, ms, count]`` of the host's calls in which it may wait for the GPU.

    >>> waits([Kernel("cudaStreamSynchronize", 0, 3_000_000), Kernel("aten::mm", 0, 9)])
    [['cudaStreamSynchronize', 3.0, 1]]
    """
    words = ("Synchronize", "cudaMemcpyAsync", "aten::item", "aten::nonzero")
    return _top([call for call in calls if any(word in call.name for word in words)])


def _spans(kernels: Sequence[Kernel]) -> list[tuple[int, int]]:
    return [(k.start, k.start + k.duration) for k in kernels]


def _top(kernels: Sequence[Kernel]) -> list[list[Any]]:
    seen: dict[str, list[int]] = {}
    for kernel in kernels:
        each = seen.setdefault(kernel.name[:NAME], [0, 0])
        each[0] += kernel.duration
        each[1] += 1
    ordered = sorted(seen.items(), key=lambda item: -item[1][0])
    return [[name, _ms(took), count] for name, (took, count) in ordered[:TOP]]


def _ms(ns: int) -> float:
    return round(ns / 1e6, 2)
