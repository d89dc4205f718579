"""`status --watch` prints again until the run has ended; `list` keeps its columns in a pipe."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scripts.doctor.api import Api
from scripts.observe.command import Target
from scripts.status import command, listing
from tests.scripts.observe.fixtures import CORE, JOBSETS, at, complete
from tests.scripts.observe.planted import jobset
from tests.scripts.observe.server import Cluster
from tests.scripts.status.test_lost_answers import documents
from tests.scripts.test_documents import CLAIM

CLEAR = "\x1b[2J\x1b[H"


def console(*, is_terminal: bool, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=width, markup=False)


def printed(place: Console) -> str:
    assert isinstance(place.file, io.StringIO)
    return place.file.getvalue()


@pytest.fixture
def waits(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch, api: Api
) -> list[float]:
    """The waits between two screens; after the second the run has ended."""
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    found: list[float] = []

    def sleep(seconds: float) -> None:
        found.append(seconds)
        if len(found) == 2:
            complete(cluster, workspace)

    monkeypatch.setattr("time.sleep", sleep)
    return found


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_watch_prints_until_the_run_has_ended(
    waits: list[float], cluster: Cluster, is_terminal: bool
) -> None:
    place = console(is_terminal=is_terminal)
    assert command.run(Target(run="dpo"), place, watch=True) == 0
    screens = printed(place).split(CLEAR) if is_terminal else printed(place).split("dpo  ")
    assert waits == [5.0, 5.0] and len(screens) == 4
    assert "running" in screens[1] and "running" in screens[2]
    assert "done" in screens[3] and "The run has ended" in screens[3]
    assert (CLEAR in printed(place)) is is_terminal


def test_a_watch_makes_a_document_each_time_and_no_reader_pod(
    waits: list[float], cluster: Cluster
) -> None:
    cluster.drop_pods()
    place = console(is_terminal=False)
    command.run(Target(run="dpo"), place, as_data=True, watch=True)
    states = [each["state"] for each in documents(printed(place))]
    assert len(states) == 3 and states[2] == "done"
    assert cluster.changes == []


@pytest.mark.usefixtures("api")
def test_a_list_in_a_pipe_has_all_columns_on_one_line(cluster: Cluster, workspace: Path) -> None:
    long = at(jobset(), workspace)
    long["metadata"] |= {"name": "dpo-" + "x" * 90, "uid": "u-2"}
    cluster.put(JOBSETS, long)
    place = console(is_terminal=False, width=40)
    assert listing.run(Target(run=""), place) == 0
    header, *rows = printed(place).splitlines()
    assert header.split() == list(listing.COLUMNS) and len(rows) == 2
    assert any(row.startswith(f"dpo-{'x' * 90} ") for row in rows)
    # A request that `list` does not send is no lost answer.
    assert not any("cluster-error" in row or "unknown" in row for row in rows), rows
    narrow = console(is_terminal=True, width=80)
    listing.run(Target(run=""), narrow)
    assert "position" not in printed(narrow)
