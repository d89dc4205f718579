"""Read a run again and again; while the API server gives no answer, the last state stays."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from scripts.doctor.api import Api
from scripts.observe.ahead import Ahead
from scripts.observe.command import Target, observe
from scripts.observe.source import Reading
from scripts.observe.view import View
from scripts.problem import Problem, UnknownState, WrongUse

LONGEST_SECONDS = 60.0
"""Longest time between two attempts to reach the API server."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A run as it was last read."""

    view: View
    reading: Reading
    lost: str = ""
    """Why there is nothing newer; empty if this is current."""
    stale_seconds: float | None = None
    """Time since it was read; None if it is current."""
    read_at: datetime | None = None
    """When it was read; None if it is current, or if nothing was."""


@dataclass(kw_only=True)
class Watch:
    """Reads one run repeatedly.

    A lost answer is no end: the server may restart, a laptop may change its network. The kubeconfig
    is read again then, so that an expired token is replaced and a context that is gone is noticed.
    """

    target: Target
    interval: float
    """Seconds between two looks while the server answers."""
    api: Api = field(init=False)
    failures: int = field(init=False, default=0)
    """Looks since the last answer."""
    _ahead: Ahead = field(init=False)
    _last: Look | None = field(init=False, default=None)
    _read_at: datetime = field(init=False, default=datetime.min)

    def __post_init__(self) -> None:
        """Select the cluster; later looks stay with it if another context becomes current."""
        self.api = self.target.reach()
        self._ahead = Ahead(workspace=self.target.workspace, source=self.target.source)
        if not self.api.unselected:
            self.target = replace(
                self.target, context=self.api.context, namespace=self.api.namespace
            )

    @property
    def wait(self) -> float:
        """Return the seconds until the next look: twice as long after each lost answer."""
        return min(self.interval * float(1 << min(self.failures, 10)), LONGEST_SECONDS)

    def look(self) -> Look:
        """Read the run; return the last state if its objects cannot be read now.

        Raises:
            Problem: the first look failed, or the options are wrong.
        """
        if self.failures:
            self._connect_again()
        try:
            view, reading = observe(self.target, self.api, reader=False, ahead=self._ahead)
        except (WrongUse, UnknownState):
            raise
        except Problem as problem:
            if self._last is None:
                raise
            return self._stale(str(problem))
        lost = view.snapshot.lost
        if view.snapshot.answer("get jobsets").status == 401 and not self.failures:
            lost = view.snapshot.answer("get jobsets").cause  # a new token may be accepted
        if not lost:
            self.failures, self._read_at = 0, datetime.now(tz=UTC)
            self._last = Look(view=view, reading=reading)
            return self._last
        if self._last is None:
            self.failures += 1
            return Look(view=view, reading=reading, lost=lost)
        if reading.files is not None:  # a mounted workspace needs no server
            seen = View(self._last.view.snapshot, reading.files)
            self._last = replace(self._last, view=seen, reading=reading)
        return self._stale(lost)

    def _stale(self, lost: str) -> Look:
        assert self._last is not None
        self.failures += 1
        age = (datetime.now(tz=UTC) - self._read_at).total_seconds()
        return replace(self._last, lost=lost, stale_seconds=max(0.0, age), read_at=self._read_at)

    def _connect_again(self) -> None:
        chosen = self.api.chosen
        made = self.target.reach()
        self.api = made if made.unselected else replace(made, chosen=chosen)
