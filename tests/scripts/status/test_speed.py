"""Time of `status`, `why` and `list` with 1,000 Workloads in the queue and 100,000 rows."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.doctor.api import Answer, Api
from scripts.observe.command import Exit
from scripts.status import listing
from tests.scripts.observe.fixtures import JOBSETS, KUEUE
from tests.scripts.observe.planted import (
    LOCAL_QUEUE,
    NOW,
    Object,
    evicted,
    jobset,
    pending,
    suspended,
    template_of,
    workload,
)
from tests.scripts.observe.server import Cluster, serving
from tests.scripts.observe.timed import timed
from tests.scripts.status.recorded import make_run

WORKLOADS = 1000
ROWS = 100_000
LIMIT_SECONDS = 2.0
"""Of the processor; both verbs take 0.5 s, on a shared machine up to 1.1."""
LIST_SECONDS = 5.0
"""Of the processor, for the list of 990 waiting runs; 1.2 s, on a shared machine up to 3.6."""
RUN = jobset()
SHORT = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"


class Stored(Cluster):
    """A cluster that keeps each answer: its own time must not count as the command's."""

    def _read(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        return self._kept(path, json.dumps(query, sort_keys=True))

    @cache  # noqa: B019 - one object for the session
    def _kept(self, path: str, query: str) -> tuple[int, bytes]:
        return super()._read(path, json.loads(query))

    __hash__ = object.__hash__


def full(item: Object) -> Object:
    """A Workload of the size that Kueue writes: it holds the pod template."""
    item["spec"]["podSets"] = [{"name": "node", "count": 2, "template": template_of(RUN)}]
    return item


def queue_of(number: int) -> Iterator[Object]:
    """Workloads of a busy queue: every fifth is admitted, the others wait."""
    for each in range(number):
        name = f"jobset-run{each}-{each:05}"
        if each % 5:
            yield full(pending(SHORT, name=name, created="2026-11-17T08:26:41Z"))
        else:
            yield full(workload(name=name, holds=16))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    file = make_run(root, "dpo", NOW) / "metrics.jsonl"
    first = [
        Row(step=step, total=ROWS, attempt=1, time=NOW - ROWS + step, seconds=1.0)
        for step in range(1, ROWS)
    ]
    file.write_text("".join(f"{rows.line(each)}\n" for each in first) + file.read_text())
    return root


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    made = Stored()
    made.put(JOBSETS, suspended())
    held = full(evicted("Preempted", SHORT, of="u-1"))
    everywhere = "/apis/kueue.x-k8s.io/v1beta2"
    made.put(f"{KUEUE}/workloads", *queue_of(WORKLOADS), held)
    made.put(f"{KUEUE}/localqueues", LOCAL_QUEUE)
    made.put(f"{everywhere}/clusterqueues", {"metadata": {"name": "gpus"}, "spec": {}})
    with serving(made, tmp_path, monkeypatch) as api:
        assert len(api.get(f"{everywhere}/workloads").items) == WORKLOADS + 1
        yield made


def test_a_busy_queue_and_a_long_run_are_answered_in_time(
    busy: Stored, tmp_path: Path, home: Path
) -> None:
    def answer(verb: str) -> Any:
        times: list[float] = []
        while len(times) < 3 and min(times, default=LIMIT_SECONDS) >= LIMIT_SECONDS:
            busy.asked.clear()
            made = timed(tmp_path, verb, "dpo", "--json", "--workspace", str(home))
            assert made.done.returncode == Exit.WAITING, made.done.stderr
            times.append(made.seconds)
            asked = [each for each in busy.asked if each.endswith("/workloads")]
            assert len([each for each in asked if "/namespaces/" not in each]) == 1
        assert min(times) < LIMIT_SECONDS, times
        return json.loads(made.done.stdout)

    status = answer("status")
    assert (status["position"]["number"], status["position"]["of"]) == (801, 801)
    assert status["step"] == 34
    [reason, *_] = answer("why")["reasons"]
    assert reason["id"] == "quota-short"
    assert "and 197 more runs hold the rest" in reason["sentence"]


@dataclass(frozen=True)
class Stub:
    """The part of `Api` that `list` uses; answers are texts, which are parsed as a client does."""

    texts: Mapping[str, str]
    context: str = "kind"
    namespace: str = "team"
    unselected: str = ""
    chosen: frozenset[str] = frozenset()

    def get(self, path: str, **query: str) -> Answer:
        text = next((text for end, text in self.texts.items() if path.endswith(end)), "{}")
        return Answer(status=200, content=json.loads(text), time=NOW)


def test_the_list_of_990_waiting_runs_has_their_starts_in_time() -> None:
    runs, held = [], []
    for number in range(WORKLOADS):
        name, holds = f"run{number}", 16 * (number < 10)
        own: Any = {"name": f"jobset-{name}", "of": f"u-{name}"}
        item = full(workload(**own, holds=holds) if holds else pending(SHORT, **own))
        item["spec"]["maximumExecutionTimeSeconds"] = 3600 + number
        held.append(item)
        meta = {**RUN["metadata"], "name": name, "uid": f"u-{name}"}
        runs.append({**RUN, "metadata": meta, "spec": {**RUN["spec"], "suspend": not holds}})
    amounts = {"cpu": "10k", "memory": "10Ti", "nvidia.com/gpu": "160"}
    quota = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    flavors = [{"name": "a100", "resources": quota}]
    spec = {"resourceGroups": [{"coveredResources": [*amounts], "flavors": flavors}]}
    entrance = {**LOCAL_QUEUE, "metadata": {"name": "gpu", "namespace": "team"}}
    lists = {"/jobsets": runs, "/workloads": held, "/localqueues": [entrance]}
    lists["/clusterqueues"] = [{"metadata": {"name": "gpus"}, "spec": spec}]
    texts = {end: json.dumps({"items": items}) for end, items in lists.items()}
    groups = ("jobset.x-k8s.io", "kueue.x-k8s.io")
    texts["/apis"] = json.dumps({"groups": [{"name": name, "versions": []} for name in groups]})
    times: list[float] = []
    while len(times) < 8 and min(times, default=LIST_SECONDS) >= LIST_SECONDS:
        begun = time.process_time()
        views = listing.snapshots(cast(Api, Stub(texts)))
        found = [listing.line(each) for each in listing._statuses(views)]
        times.append(time.process_time() - begun)
    waiting = [each for each in found if each.start]
    assert len(waiting) == WORKLOADS - 10
    assert sorted(each.position or 0 for each in waiting) == list(range(1, WORKLOADS - 9))
    assert all(each.start and each.start.expected for each in waiting)
    assert min(times) < LIST_SECONDS, times
