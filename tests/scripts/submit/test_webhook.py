"""Messages of `submit --wait` while the run has no pods; the URL is read with the user's rights."""

import base64
import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console

from launchers.progress import notify
from launchers.system.retry import RetryPolicy
from scripts.doctor.api import Answer, Api
from scripts.observe.command import Exit
from scripts.observe.view import View
from scripts.submit import follow
from scripts.submit.follow import Until
from scripts.submit.webhook import QueueMessages, queue_notice, webhook_of
from scripts.why.reasons import explain
from tests.launchers.progress.test_notify import SECRET, Receiver, receiving
from tests.scripts.observe.fixtures import CORE
from tests.scripts.observe.planted import (
    RUNNING,
    Object,
    container_of,
    jobset,
    pod,
    suspended,
    view,
    workload,
)
from tests.scripts.observe.server import Cluster
from tests.scripts.why.states import STATES

REFERENCE = {"secretKeyRef": {"name": "hook", "key": "url"}}
URL = {"name": "DPO_WEBHOOK_URL", "valueFrom": REFERENCE}


def hooked(made: Object, wait: str = "600") -> Object:
    """The JobSet with `monitoring.webhook`, as the chart renders it."""
    made = copy.deepcopy(made)
    container_of(made)["env"] += [URL, {"name": "DPO_WEBHOOK_WAIT", "value": wait}]
    return made


def hook(**data: str) -> Object:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {"metadata": {"name": "hook"}, "data": encoded}


def waits(wait: str = "600") -> View:
    return view(hooked(suspended(), wait), workloads=[workload()])


def sent_at(seen: View, seconds: float) -> str:
    found = queue_notice(seen, explain(seen)[0], waited=seconds, limit=600)
    return f"{found.reason}: {found.text}" if found else ""


def test_the_reference_is_that_of_the_chart() -> None:
    found = webhook_of(waits())
    assert found and (found.secret, found.key, found.wait) == ("hook", "url", 600.0)
    assert webhook_of(view(suspended())) is None


def test_a_long_wait_without_pods_and_a_run_that_cannot_start_are_worth_a_message() -> None:
    assert sent_at(waits(), 599) == ""
    text = sent_at(waits(), 600)
    assert text.startswith("Waiting: Run dpo waits without pods for 10 min: ")
    assert text.endswith("megatron-dpo why dpo -n team")
    assert sent_at(STATES["local-queue-missing"][0](), 0).startswith("Failed: Run dpo cannot start")
    assert sent_at(view(jobset(), pods=[pod(0, RUNNING), pod(1, None)]), 9e9) == "", "rank 0 sends"
    assert sent_at(STATES["jobset-user-rule"][0](), 0) == "", "rank 0 has sent it"


def followed(api: Api, *views: View) -> tuple[int, list[str]]:
    noted: list[str] = []
    left = iter(views)
    messages = QueueMessages(api=api, note=noted.append)
    console = Console(quiet=True)
    code = follow.follow(lambda: (next(left), []), Until.RUNNING, console, messages.look)
    messages.close()
    return code, noted


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(notify, "RETRIES", RetryPolicy(limit=20.0, first=0.05, longest=0.1))
    monkeypatch.setattr(notify, "END_SECONDS", 30.0)
    with receiving(Receiver((503,))) as made:
        yield made


@pytest.fixture
def secret(cluster: Cluster, receiver: Receiver) -> None:
    cluster.put(f"{CORE}/secrets", hook(url=f"{receiver.url}\n"))


RUNS = view(hooked(jobset()), pods=[pod(0, RUNNING), pod(1, RUNNING)])
STARTS = view(hooked(jobset()), workloads=[workload(holds=16)], pods=[pod(0, None), pod(1, None)])


@pytest.mark.usefixtures("secret")
def test_each_time_without_pods_is_sent_once_and_again_after_a_server_error(
    api: Api, receiver: Receiver
) -> None:
    views = (waits("0"), waits("0"), STARTS, waits("0"), RUNS)
    assert followed(api, *views) == (Exit.OK, [])
    assert [each["reason"] for each in receiver.bodies] == ["Waiting", "Waiting"]
    assert {"text", "run", "reason", "attempt", "step", "total"} <= set(receiver.bodies[0])


@pytest.mark.usefixtures("secret")
def test_a_run_that_cannot_start_is_sent_before_the_command_ends(
    api: Api, receiver: Receiver
) -> None:
    made = STATES["local-queue-missing"][0]().snapshot
    run = Answer(status=200, content=hooked(dict(made.jobset)))
    failed = View(replace(made, answers={**made.answers, "get jobsets": run}))
    assert followed(api, failed)[0] == Exit.FAILED
    assert [each["reason"] for each in receiver.bodies] == ["Failed"]


@pytest.mark.parametrize(
    ("secrets", "forbidden", "why"),
    [
        ([], set(), "not found"),
        ([], {"GET /secrets"}, "you lack the permission: get secrets"),
        ([hook(link="x")], set(), "Secret hook has no key url"),
    ],
    ids=["absent", "forbidden", "other key"],
)
def test_a_url_that_is_not_read_is_a_note_and_the_wait_continues(
    secrets: list[Object],
    forbidden: set[str],
    why: str,
    api: Api,
    receiver: Receiver,
    cluster: Cluster,
) -> None:
    cluster.put(f"{CORE}/secrets", *secrets)
    cluster.forbidden |= forbidden
    code, (note,) = followed(api, waits("0"), waits("0"), RUNS)
    assert code == Exit.OK and why in note and SECRET not in note and receiver.bodies == []


def test_the_url_is_not_printed(
    api: Api, cluster: Cluster, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.put(f"{CORE}/secrets", hook(url=f"ftp://{SECRET}"))
    assert followed(api, waits("0"), RUNS) == (Exit.OK, [])
    assert "webhook not sent" in caplog.text and SECRET not in caplog.text
