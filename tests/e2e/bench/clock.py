"""Times at which the pods of a namespace were created, bound, running and gone, from one watch."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.bench import api
from tests.e2e.cluster.layout import Layout

WAIT = 0.01


@dataclass
class Clock:
    """First observation of each state by pod uid (``time.monotonic``)."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    """Node of each pod by completion index."""

    def see(self, pod: dict[str, Any], now: float) -> None:
        """Record one event of the watch.

        >>> clock = Clock()
        >>> clock.see({"metadata": {"uid": "a"}, "spec": {"nodeName": "n"}, "status": {}}, 2.0)
        >>> clock.created, clock.bound, clock.running
        ({'a': 2.0}, {'a': 2.0}, {})
        """
        uid = pod["metadata"]["uid"]
        self.created.setdefault(uid, now)
        host = pod["spec"].get("nodeName")
        if host:
            self.bound.setdefault(uid, now)
            labels = pod["metadata"].get("labels", {})
            self.hosts[labels.get("batch.kubernetes.io/job-completion-index", uid)] = host
        # A pod that ends within its kubelet's reporting interval is never reported as running.
        if pod["status"].get("phase", "Pending") != "Pending":
            self.running.setdefault(uid, now)

    def all_of(self, state: str, pods: int) -> float | None:
        """Return the time at which the last of ``pods`` pods reached a state; None until then."""
        times: dict[str, float] = getattr(self, state)
        return max(times.values()) if len(times) >= pods else None


@contextmanager
def watching(layout: Layout, namespace: str) -> Iterator[Clock]:
    """Watch the pods of a namespace.

    The API server ends a watch that falls behind, as with 1,024 pods on two cores; a new watch
    starts with the current state of all pods.
    """
    clock = Clock()
    path = f"/api/v1/namespaces/{namespace}/pods"
    streams = [api.watch(layout, path)]
    closing = threading.Event()

    def follow() -> None:
        while not closing.is_set():
            for line in streams[-1].stdout or ():
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    clock.see(event["object"], time.monotonic())
            if not closing.is_set():
                streams.append(api.watch(layout, path))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield clock
    finally:
        closing.set()
        streams[-1].terminate()
        thread.join(timeout=10)
        for stream in streams:
            stream.kill()
            stream.wait()


def wait_for(
    what: str, ready: Callable[[], float | bool | None], seconds: float, every: float = WAIT
) -> float:
    """Wait until ``ready`` returns a true value; return it if it is a time, otherwise the current
    time.

    Use a larger ``every`` if each poll is expensive for the API server.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = ready()
        if found:
            return time.monotonic() if found is True else float(found)
        time.sleep(every)
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")
