"""Upgrades of a run's labels and claim that Kueue and Kubernetes allow."""

from pathlib import Path

import pytest

from tests.chart.helm import Document
from tests.chart.upgrades import changes, put, upgrade

CLAIM: Document = {"workspace": {"existingClaim": None, "pvc": {"size": "2Gi"}}}
STARTED = ", and the run has started"


@pytest.mark.parametrize(
    "suspended, before, after, refused",
    [
        (False, {"queue": "a"}, {"queue": "b"}, f"kueue.queue: a to b{STARTED}"),
        (True, {"queue": "a"}, {"queue": "b"}, ""),
        (False, {"queue": "a"}, {}, f"kueue.queue: a to (none){STARTED}"),
        (True, {"queue": "a"}, {}, "kueue.queue: a to (none)"),
        (False, {}, {"queue": "a"}, f"kueue.queue: (none) to a{STARTED}"),
        (False, {"priorityClass": "a"}, {"priorityClass": "b"}, ""),
        (False, {}, {"priorityClass": "b"}, f"kueue.priorityClass: (none) to b{STARTED}"),
        (True, {}, {"priorityClass": "b"}, ""),
        (True, {"priorityClass": "a"}, {}, "kueue.priorityClass: a to (none)"),
        (False, {"maxExecTimeSeconds": 9}, {"maxExecTimeSeconds": 8}, f"9 to 8{STARTED}"),
        (True, {"maxExecTimeSeconds": 9}, {}, ""),
    ],
)
def test_the_queues_labels_change_as_far_as_kueue_lets_them(
    chart: Path, suspended: bool, before: Document, after: Document, refused: str
) -> None:
    def layer(kueue: Document) -> Document:
        queue = {} if {"queue"} & (set(before) | set(after)) else {"queue": "q"}
        return {"kueue": {**queue, **kueue}}

    put(chart, layer(before), suspended=suspended)
    reported = changes(upgrade(chart, layer(after)))
    assert reported == [] if not refused else len(reported) == 1 and reported[0].endswith(refused)


@pytest.mark.parametrize(
    "change, refused",
    [
        ({"size": "1Gi"}, "size: 2Gi to 1Gi, and a claim cannot shrink"),
        ({"storageClassName": "fast"}, "storageClassName: slow to fast"),
        ({"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}, "ReadWriteMany to ReadWriteMany, R"),
        ({"storageClassName": "slow", "accessModes": ["ReadWriteMany"], "size": "2048Mi"}, ""),
    ],
)
def test_a_claim_only_grows(chart: Path, change: Document, refused: str) -> None:
    put(chart, CLAIM)
    reported = changes(upgrade(chart, CLAIM, {"workspace": {"pvc": change}}))
    assert reported == [] if not refused else refused in reported[0]
