"""Read the logs of a run's pods, one thread for each rank, over restarts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.doctor.api import JOBSETS, PODS, Api, Object
from scripts.logs.lines import Format, batches
from scripts.manifest import GANG
from scripts.observe.cluster import INDEX_LABEL, JOB_LABEL, NAME_LABEL
from scripts.observe.view import LAUNCHER

POLL_SECONDS = 2.0
"""Time between two looks for the next pod of a rank."""
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
    missing: set[int] = field(default_factory=set)
    """Ranks without a log in the cluster."""

    def read(self, write: Write) -> None:
        """Write the lines of all ranks as they come, until all have ended."""
        found: queue.Queue[Output] = queue.Queue(maxsize=1000)
        ended = threading.Event()
        for form in self.formats.values():
            work = threading.Thread(target=self._work, args=(form, found, ended), daemon=True)
            work.start()
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
        finally:
            found.put(Output(text="", is_last=True))

    def _texts(self, form: Format, ended: threading.Event) -> Iterator[str]:
        seen: set[str] = set()
        while not ended.is_set():
            pod = self._pod(form.rank, seen)
            if pod is not None:
                seen.add(pod["metadata"]["uid"])
                yield from self._log(pod, form, is_first=len(seen) == 1)
            elif not self.follow or self._is_over() or ended.wait(POLL_SECONDS):
                break
            if not self.follow:
                break
        if not seen:
            self.missing.add(form.rank)

    def _log(self, pod: Object, form: Format, *, is_first: bool) -> Iterator[str]:
        query = {"container": LAUNCHER}
        if self.follow:
            query["follow"] = "true"
        if is_first and self.tail is not None:
            query["tailLines"] = str(self.tail)
        path = PODS.path(self.api.namespace, f"{pod['metadata']['name']}/log")
        for lines in batches(self.api.follow(path, **query)):
            yield form.apply(lines)

    def _pod(self, rank: int, seen: set[str]) -> Object | None:
        """Return the youngest pod of a rank that has a log and was not read; None without one."""
        labels = {NAME_LABEL: self.run, JOB_LABEL: GANG, INDEX_LABEL: str(rank)}
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        items = self.api.get(PODS.path(self.api.namespace), labelSelector=selector).items
        fresh = [each for each in items if has_log(each) and each["metadata"]["uid"] not in seen]
        return max(fresh, key=lambda each: each["metadata"]["creationTimestamp"], default=None)

    def _is_over(self) -> bool:
        found = self.api.get(JOBSETS.path(self.api.namespace, self.run))
        return not found.found or bool((found.content.get("status") or {}).get("terminalState"))


def has_log(pod: Object) -> bool:
    """Return whether the launcher's container has started."""
    statuses: Sequence[Object] = (pod.get("status") or {}).get("containerStatuses") or []
    states = [each.get("state") or {} for each in statuses if each["name"] == LAUNCHER]
    return any("running" in each or "terminated" in each for each in states)
