"""Read the logs of a run's pods, one thread for each rank, over restarts."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.doctor.api import JOBSETS, NO_ANSWER, PODS, Api, LostAnswer, Object
from scripts.logs.lines import Format, batches
from scripts.manifest import GANG
from scripts.observe.cluster import INDEX_LABEL, JOB_LABEL, NAME_LABEL, failure
from scripts.observe.view import LAUNCHER
from scripts.problem import Problem

POLL_SECONDS = 2.0
"""Time between two looks for the next pod of a rank."""
SETTLE_SECONDS = 10.0
"""Time that a container may be reported as running after the end of its log."""
LONGEST_SECONDS = 60.0
"""Longest time between two connections."""
IDLE = "Read timed out"
"""Begin of the cause if a connection was silent: no reason for a note."""
STARTED = ("running", "terminated")
Texts = Iterator[str]
Write = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Output:
    """Lines of one pod, or the end of all lines of a rank."""

    text: str
    is_last: bool = False


@dataclass(kw_only=True)
class Reader:
    """Reads the logs of ranks."""

    api: Api
    run: str
    formats: Mapping[int, Format]
    """By rank."""
    follow: bool
    tail: int | None
    """Last lines of each rank's first pod; None for all."""
    note: Callable[[str], None] = lambda text: None
    """Prints what keeps lines from coming."""
    missing: dict[int, str] = field(default_factory=dict)
    """Ranks without a log in the cluster, and why."""
    _is_lost: threading.Event = field(default_factory=threading.Event)
    """Set while no answer comes: all ranks lose theirs together, and one note suffices."""

    def read(self, write: Write) -> None:
        """Write the lines of all ranks as they come, until all have ended."""
        found: queue.Queue[Output] = queue.Queue(maxsize=1000)
        ended = threading.Event()
        for form in self.formats.values():
            threading.Thread(target=self._work, args=(form, found, ended), daemon=True).start()
        left = len(self.formats)
        try:
            while left:
                output = found.get()
                left -= output.is_last
                if output.text:
                    write(output.text)
        finally:
            ended.set()

    def _work(self, form: Format, found: queue.Queue[Output], ended: threading.Event) -> None:
        try:
            for text in self._texts(form, ended):
                found.put(Output(text=text))
        except Problem as problem:
            self.missing[form.rank] = str(problem)
        finally:
            found.put(Output(text="", is_last=True))

    def _texts(self, form: Format, ended: threading.Event) -> Texts:
        last: Object | None = None
        while not ended.is_set():
            pod = self._pod(form.rank, last)
            if pod is not None:
                yield from self._log(pod, form, ended, is_first=last is None)
                last = pod
            elif not self.follow or self._is_over() or ended.wait(POLL_SECONDS):
                break
            if not self.follow:
                break
        if last is None:
            self.missing[form.rank] = f"no pod of rank {form.rank} has a log"

    def _log(self, pod: Object, form: Format, ended: threading.Event, *, is_first: bool) -> Texts:
        """Yield the lines of a pod, over connections that break while it runs.

        A new connection begins a second before the last block, so lines may be repeated.
        """
        query = {"container": LAUNCHER}
        if self.follow:
            query["follow"] = "true"
        if is_first and self.tail is not None:
            query["tailLines"] = str(self.tail)
        path = PODS.path(self.api.namespace, pod["metadata"]["name"])
        failures, received = 0, 0.0
        while not ended.is_set():
            lost = False
            try:
                for lines in batches(self.api.follow(f"{path}/log", **query)):
                    received = time.monotonic()
                    failures = 0
                    self._is_lost.clear()
                    yield form.apply(lines)
            except LostAnswer as problem:
                if not self.follow:
                    raise
                failures, lost = failures + 1, True
                if IDLE not in str(problem):
                    self._lose(str(problem))
            except Problem:
                if not self.follow or self._continues(path, pod, ended):
                    raise
                return
            if not self.follow or not self._continues(path, pod, ended, after_loss=lost):
                return
            if failures > 1:
                ended.wait(min(POLL_SECONDS * 2.0 ** min(failures, 10), LONGEST_SECONDS))
            if received:
                query.pop("tailLines", None)
                query["sinceSeconds"] = str(round(time.monotonic() - received) + 1)

    def _lose(self, cause: str, lack: str = failure(NO_ANSWER)) -> None:
        if not self._is_lost.is_set():
            self._is_lost.set()
            self.note(f"{lack} ({cause}); it is asked again")

    def _continues(
        self, path: str, pod: Object, ended: threading.Event, *, after_loss: bool = False
    ) -> bool:
        """Return whether this pod has more lines: its launcher runs although its log has ended.

        The kubelet reports the end of a container some seconds after that of its log. After a loss
        the log of a container that has ended has more lines, too.
        """
        limit = time.monotonic() + SETTLE_SECONDS * (not after_loss)
        states = STARTED if after_loss else ("running",)
        while not ended.is_set():
            answer = self.api.get(path)
            if answer.found:
                same = answer.content["metadata"]["uid"] == pod["metadata"]["uid"]
                if not same or not has_log(answer.content, *states):
                    return False
                if time.monotonic() >= limit:
                    return True
            elif answer.lost:
                self._lose(answer.cause)
            else:
                return False
            ended.wait(POLL_SECONDS)
        return False

    def _pod(self, rank: int, last: Object | None) -> Object | None:
        """Return the youngest pod of a rank that has a log; None without one after the last."""
        labels = {NAME_LABEL: self.run, JOB_LABEL: GANG, INDEX_LABEL: str(rank)}
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        answer = self.api.get(PODS.path(self.api.namespace), labelSelector=selector)
        if answer.status in (401, 403):
            raise Problem(f"{failure(answer)}: list pods ({answer.why})")
        if not answer.found:
            if not self.follow:
                raise LostAnswer(f"the pods cannot be listed: {answer.why}")
            self._lose(answer.cause, failure(answer))
        found = max(filter(has_log, answer.items), key=_created, default=None)
        if found is None or last is None:
            return found
        is_other = found["metadata"]["uid"] != last["metadata"]["uid"]
        return found if is_other and _created(found) >= _created(last) else None

    def _is_over(self) -> bool:
        """Return whether no pod will follow: the run has ended, or may not be read."""
        found = self.api.get(JOBSETS.path(self.api.namespace, self.run))
        is_gone = not found.found and not found.lost
        return is_gone or bool((found.content.get("status") or {}).get("terminalState"))


def _created(pod: Object) -> str:
    """Return when a pod was created; RFC 3339 times in UTC sort as text."""
    return str(pod["metadata"]["creationTimestamp"])


def has_log(pod: Object, *states: str) -> bool:
    """Return whether the launcher's container has started, or is in one of these states."""
    statuses: Sequence[Object] = (pod.get("status") or {}).get("containerStatuses") or []
    found = [each.get("state") or {} for each in statuses if each["name"] == LAUNCHER]
    return any(wanted in each for each in found for wanted in states or STARTED)
