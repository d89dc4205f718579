"""Judge whether the training processes of a node have been silent for too long. Pure.

A process writes a heartbeat at each boundary, batch and phase (``system/step_board.py``). Its limit
is five times the median step, in a save five times the longest one so far, and at least the floor
of its phase. In most phases processes wait for each other, so that a node is silent only when all
its processes are, and the gang hangs only when all nodes are silent (``hang/agreement.py``).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from launchers.system.step_board import Phase, Reading, step_of

STEPS = 5
"""Median steps, or longest saves, without a heartbeat after which a process is silent, if that
exceeds the floor."""
WINDOW = 31
"""Number of last steps that the median covers."""


@dataclass(frozen=True, kw_only=True)
class Silence:
    """State of a node whose processes have all exceeded the limit without a heartbeat."""

    seconds: float
    """Since the last heartbeat of any of them."""
    limit: float
    phase: str
    """Phase of the process that gave it, a key of ``settings.FLOORS``; ``end`` if all processes
    have ended and torchrun has not, ``write`` if one has not ended to write a checkpoint."""


NOTHING_RUNS = Silence(seconds=0.0, limit=0.0, phase="save")
"""Of a node whose processes have all ended: it does not keep the others from hanging."""
SHORT_SHARE = 0.2
"""Share of the floor of ``end`` after which a torchrun is silent if it is stopped, or if its
processes have ended early: the first waits for no other node, and other nodes wait for the second.
"""


@dataclass
class StepTimes:
    """The last steps of one node."""

    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _step: int = 0
    longest_save: float = 0.0
    """Seconds; of this attempt, or as planned if the caller knows it."""

    def note(self, readings: Sequence[Reading]) -> None:
        """Add the step and the saves that have ended since the last call."""
        self.longest_save = max(self.longest_save, *(each.save_seconds for each in readings), 0.0)
        if readings and step_of(readings[0].boundary) != self._step:
            self._step = step_of(readings[0].boundary)
            if readings[0].step_seconds:
                self._seconds.append(readings[0].step_seconds)

    @property
    def median(self) -> float:
        """Return the median duration in seconds; 0 before the first step."""
        return median(self._seconds) if self._seconds else 0.0


def phase_of(reading: Reading) -> str:
    """Return the phase whose floor counts: ``data`` while a process waits for its loader."""
    if reading.phase == Phase.STOPPED:
        return "save"
    if reading.loads and reading.phase != Phase.START:
        return "data"
    is_first = reading.phase == Phase.STEP and not reading.step_seconds
    return "first_step" if is_first else reading.phase.name.lower()


def with_saves(floors: Mapping[str, int], longest: float) -> Mapping[str, int]:
    """Return the floors; that of a save is at least ``STEPS`` times the longest one, in seconds.

    >>> [with_saves({"save": 1800}, seconds)["save"] for seconds in (0.0, 300.0, 2400.0)]
    [1800, 1800, 12000]
    """
    return {**floors, "save": max(floors["save"], round(STEPS * longest))}


def limit_of(reading: Reading, step: float, floors: Mapping[str, int]) -> float:
    """Return the seconds without a heartbeat after which a process is silent.

    Kernels are compiled until the end of the first step, whose floor counts in all phases but the
    start.
    ``step`` is the median, and all are seconds.

    >>> first = Reading(boundary=2, phase=Phase.STEP, step_seconds=0, save_seconds=0)
    >>> later = Reading(boundary=8, phase=Phase.STEP, step_seconds=9, save_seconds=0)
    >>> floors = {"start": 7200, "first_step": 3600, "step": 300, "save": 1800}
    >>> [limit_of(first, 0, floors), limit_of(later, 9, floors), limit_of(later, 90, floors)]
    [3600.0, 300.0, 450.0]
    """
    floor = with_saves(floors, reading.save_seconds)[phase_of(reading)]
    if not reading.step_seconds and reading.phase != Phase.START:
        floor = max(floor, floors["first_step"])
    return float(max(STEPS * step, floor))


def limit_of_end(*, waits: bool, floors: Mapping[str, int]) -> float:
    """Return the seconds in which torchrun must end after its processes have.

    ``waits``: it may wait for other nodes, whose processes train to the end.

    >>> [limit_of_end(waits=each, floors={"end": 330}) for each in (True, False)]
    [330.0, 66.0]
    """
    return float(floors["end"]) * (1 if waits else SHORT_SHARE)


def early_ends(readings: Sequence[Reading]) -> list[int]:
    """Return the local ranks whose processes ended before their training did.

    One without a heartbeat is not judged: it may have no callbacks of the launcher.
    """
    return [local for local, each in enumerate(readings) if each.beat and not each.is_done]


def last_sign(reading: Reading) -> float:
    """Return the time of the last heartbeat; in a save, which ends with the write, also of a flush.

    >>> last = Reading(boundary=8, phase=Phase.SAVE, step_seconds=9, save_seconds=0, beat=10)
    >>> last_sign(last)
    10
    """
    return max(reading.beat, reading.write_beat) if reading.phase == Phase.SAVE else reading.beat


def limit_of_write(reading: Reading, floors: Mapping[str, int]) -> float:
    """Return the seconds in which a process must write more of its part of a checkpoint.

    >>> saved = Reading(boundary=8, phase=Phase.STEP, step_seconds=9, save_seconds=500)
    >>> limit_of_write(saved, {"save": 1800})
    2500.0
    """
    return float(with_saves(floors, reading.save_seconds)["save"])


def late_writes(
    readings: Sequence[Reading],
    *,
    now: float,
    floors: Mapping[str, int],
    has_ended: Callable[[int], bool] = lambda pid: False,
) -> tuple[Silence, list[int]] | None:
    """Return the longest pause of a write in the background, and the local ranks over their limit.

    None if no rank is. The other processes may train on until the next save. A slow disk that
    takes more is not a hang.
    """
    late = {
        n: Silence(seconds=now - each.write_beat, limit=limit_of_write(each, floors), phase="write")
        for n, each in enumerate(readings)
        if each.write_beat and not (each.pid and has_ended(each.pid))
    }
    late = {n: each for n, each in late.items() if each.seconds > each.limit}
    if not late:
        return None
    return max(late.values(), key=lambda each: each.seconds), sorted(late)


def judge(
    readings: Sequence[Reading],
    *,
    now: float,
    began: float,
    step: float,
    floors: Mapping[str, int],
    has_ended: Callable[[int], bool] = lambda pid: False,
) -> Silence | None:
    """Return how long a node has been silent; None if it is not.

    Args:
        readings: of its processes.
        now: monotonic time.
        began: monotonic time of their start, for those that have given no heartbeat yet.
        step: median step in seconds.
        floors: seconds by phase.
        has_ended: whether a process has ended; the others still run, or torchrun ends them.
    """
    left = [each for each in readings if not (each.pid and has_ended(each.pid))]
    if not left:
        return NOTHING_RUNS
    if any(now - max(last_sign(each), began) <= limit_of(each, step, floors) for each in left):
        return None
    last = max(left, key=last_sign)
    return Silence(
        seconds=now - max(last_sign(last), began),
        limit=limit_of(last, step, floors),
        phase=phase_of(last),
    )
