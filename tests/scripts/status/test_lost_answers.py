"""`status --watch` outlives lost answers, and ends where no later answer is possible."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from scripts.doctor import api as api_module
from scripts.doctor.api import Api
from scripts.observe.command import Target
from scripts.observe.watch import LONGEST_SECONDS, Watch
from scripts.status import command
from tests.scripts.observe.fixtures import CORE, JOBSETS, complete
from tests.scripts.observe.server import Cluster
from tests.scripts.test_documents import CLAIM, validate

RUN = f"{JOBSETS}/dpo"
DROPPED = "list pods: no answer (Remote end closed connection without response)"
Act = Callable[[], object]
Plan = Callable[..., list[float]]


def nothing() -> None:
    """Only wait."""


@pytest.fixture
def after(cluster: Cluster, api: Api, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Do something in each wait between two looks; return the waits, which take no time."""
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    monkeypatch.setattr(api_module, "TIMEOUT_SECONDS", (0.5, 0.5))

    def plan(*acts: Act) -> list[float]:
        found: list[float] = []

        def sleep(seconds: float) -> None:
            assert len(found) < len(acts), "it does not end"
            found.append(seconds)
            acts[len(found) - 1]()

        monkeypatch.setattr("time.sleep", sleep)
        return found

    return plan


def documents(text: str) -> list[Any]:
    decoder, found = json.JSONDecoder(), []
    while text.strip():
        document, stop = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[stop:]
        validate("status", document)
        found.append(document)
    return found


def watched(**target: Any) -> tuple[int, list[Any]]:
    place = Console(width=80, markup=False)
    with place.capture() as captured:
        code = command.run(Target(run="dpo", **target), place, as_data=True, watch=True)
    return code, documents(captured.get())


@pytest.mark.parametrize("fault", ["drop", "stall", "500", "503", "429"])
@pytest.mark.parametrize("path", [RUN, f"{CORE}/pods"], ids=["jobset", "pods"])
def test_a_watch_repeats_the_last_state_with_its_age_until_an_answer_comes(
    fault: str, path: str, after: Plan, cluster: Cluster, workspace: Path
) -> None:
    cluster.faults[path] = ["", fault, fault, fault]
    waits = after(*[nothing] * 4, lambda: complete(cluster, workspace))
    code, found = watched()
    assert code == 0
    assert [each["state"] for each in found] == [*["running"] * 5, "done"]
    ages = [each["stale_seconds"] for each in found]
    assert [age is None for age in ages] == [True, False, False, False, True, True]
    assert ages[1] < ages[2] < ages[3]
    assert waits == [5, 10, 20, 40, 5]
    assert "no newer answer of the API server" in found[1]["notes"][0]
    assert found[1]["notes"][0].endswith("old; the next attempt is in 10 s")


def test_a_watch_that_begins_without_an_answer_continues(
    after: Plan, cluster: Cluster, workspace: Path
) -> None:
    cluster.faults[RUN] = ["drop", "500"]
    waits = after(nothing, nothing, lambda: complete(cluster, workspace))
    code, found = watched()
    assert [each["state"] for each in found] == ["unknown", "unknown", "running", "done"]
    assert (code, waits) == (0, [10, 20, 5])
    assert found[0]["stale_seconds"] is None


def test_attempts_are_at_most_a_minute_apart(api: Api) -> None:
    watch = Watch(target=Target(run="dpo"), interval=5.0)
    watch.failures = 10_000
    assert watch.wait == LONGEST_SECONDS


def test_new_files_of_a_mounted_workspace_are_shown_meanwhile(
    after: Plan, cluster: Cluster, workspace: Path
) -> None:
    file = workspace / "runs" / "dpo" / "progress.json"
    cluster.faults[RUN] = ["", "drop"]
    trains = json.dumps({"state": "running", "stage": "train"})
    after(lambda: file.write_text(trains), lambda: complete(cluster, workspace))
    _, found = watched(workspace=workspace)
    assert [each["stage"] for each in found] == ["clone", "train", "train"]
    assert [each["stale_seconds"] is None for each in found] == [True, False, True]
    assert len(found[1]["ranks"]) == 2


@pytest.mark.parametrize(
    ("faults", "id", "code"),
    [(["", "403"], "no-permission", 4), (["", "401", "401"], "not-authenticated", 4)],
)
def test_a_watch_ends_without_the_permission_or_login(
    faults: list[str], id: str, code: int, after: Plan, cluster: Cluster
) -> None:
    cluster.faults[RUN] = faults
    count = len(faults) - 1
    waits = after(*[nothing] * count)
    ended, found = watched()
    assert (ended, found[-1]["reason"]["id"], len(waits)) == (code, id, count)


def test_a_watch_ends_when_the_run_is_gone(after: Plan, cluster: Cluster) -> None:
    after(lambda: cluster.objects.pop(RUN))
    code, found = watched()
    assert (code, [each["reason"]["id"] for each in found][-1]) == (1, "run-not-found")


def test_a_watch_ends_when_its_context_is_gone_and_does_not_follow_another(
    after: Plan, cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    config = yaml.safe_load(file.read_text())

    def remove() -> None:
        config["contexts"] = [each for each in config["contexts"] if each["name"] != "here"]
        file.write_text(yaml.safe_dump(config))

    def switch() -> None:
        config["current-context"] = "other"
        file.write_text(yaml.safe_dump(config))

    cluster.faults[RUN] = ["drop", "", "drop"]
    after(switch, nothing, remove)
    code, found = watched()
    assert [each["context"] for each in found[:3]] == ["here"] * 3
    assert [each["namespace"] for each in found[:3]] == ["team"] * 3
    assert (code, found[-1]["reason"]["id"]) == (4, "no-cluster")
    assert "no context here; the kubeconfig has other" in found[-1]["reason"]["sentence"]


def test_one_report_says_that_a_request_was_lost(after: Plan, cluster: Cluster) -> None:
    cluster.faults[f"{CORE}/pods"] = ["drop"]
    place = Console(width=200, markup=False)
    with place.capture() as captured:
        assert command.run(Target(run="dpo"), place) == 4
    said = " ".join(captured.get().split())
    assert f"left a request without an answer: {DROPPED}" in said
