"""The rehearsal on a cluster: refusals, waiting, the report in rank 0's log."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launchers.rehearsal.result import LINE
from scripts.doctor.api import Answer, Api
from scripts.problem import Problem, UnknownState
from scripts.rehearse import command
from scripts.rehearse.command import Request

VALUES = Path("values/demo-cpu.yaml")
REQUEST = Request(run="dpo", files=[VALUES])
TABLE = [f"{LINE}resume  ok  from step 2", f"{LINE}verdict: ok"]


def jobset(**status: Any) -> Answer:
    return Answer(status=200, content={"spec": {"suspend": False}, "status": status})


QUEUED = Answer(status=200, content={"spec": {"suspend": True}})
ABSENT = Answer(status=404)
LOST = Answer(status=0, content={"message": "Connection refused"})


class FakeApi(Api):
    """Answers with JobSets in turn, the last one for good, and with one log."""

    def __init__(self, states: Sequence[Answer], log: Sequence[str] = ()) -> None:
        super().__init__(client=None, context="here", namespace="team")
        object.__setattr__(self, "states", list(states))
        object.__setattr__(self, "log", log)

    def get(self, path: str, **query: str) -> Answer:
        states: list[Answer] = self.__dict__["states"]
        if path.endswith("/pods"):
            assert "jobset-name=dpo-rehearsal" in query["labelSelector"]
            names = ("old", "2026-01-01"), ("new", "2026-01-02")
            if self.__dict__["log"] == "lost":
                return Answer(status=500)
            items = [{"metadata": {"name": n, "creationTimestamp": t}} for n, t in names]
            return Answer(status=200, content={"items": items})
        return states.pop(0) if len(states) > 1 else states[0]

    def text(self, path: str, **query: str) -> str | None:
        if not self.__dict__["log"]:
            return None
        assert path.endswith("/pods/new/log") and query == {"container": "launcher"}
        return "\n".join(self.__dict__["log"])


Calls = list[list[str]]
Rehearse = Callable[..., tuple[int, str]]


@pytest.fixture
def helm(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls of Helm, which does nothing; no time is waited."""
    calls: Calls = []
    monkeypatch.setattr(command, "_helm", lambda words: calls.append(list(words)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    return calls


@pytest.fixture
def rehearse(monkeypatch: pytest.MonkeyPatch, helm: Calls) -> Rehearse:
    """Rehearse with these states of the JobSet and this log; return the code and the output."""

    def act(
        states: Sequence[Answer], log: Sequence[str] = (), given: Request = REQUEST
    ) -> tuple[int, str]:
        api, console = FakeApi(states, log), Console(width=200)
        monkeypatch.setattr(command, "connect", lambda context, namespace: api)
        with console.capture() as captured:
            code = command.run(given, console)
        return code, captured.get()

    return act


def test_a_rehearsal_is_installed_reported_and_removed(rehearse: Rehearse, helm: Calls) -> None:
    states = [ABSENT, QUEUED, jobset(), jobset(restarts=1), jobset(terminalState="Completed")]
    code, output = rehearse(states, ["noise", *TABLE])
    assert code == 0
    verbs = ("uninstall", "install", "uninstall")
    assert [words[:2] for words in helm] == [[verb, "dpo-rehearsal"] for verb in verbs]
    assert helm[1][-2:] == ["--set", "rehearse=true"]
    assert {"--namespace", "team", "--kube-context", "here"} <= set(helm[1])
    said = [line for line in output.splitlines() if line.startswith("dpo-rehearsal: ")]
    states_said = ["queued", "running", "running, 1 restart", "completed"]
    assert [line.partition(": ")[2] for line in said] == states_said
    assert "resume  ok  from step 2" in output and LINE not in output and "noise" not in output


def test_a_failed_rehearsal_stays_for_its_logs(rehearse: Rehearse, helm: Calls) -> None:
    states = [ABSENT, jobset(terminalState="Failed")]
    code, output = rehearse(states, [*TABLE[:1], f"{LINE}verdict: fail"])
    assert code == 1 and "verdict: fail" in output
    assert [words[0] for words in helm] == ["uninstall", "install"]
    assert "helm uninstall dpo-rehearsal" in output


def test_a_rehearsal_without_a_report_shows_the_end_of_the_log(rehearse: Rehearse) -> None:
    log = [f"line {number}" for number in range(99)]
    code, output = rehearse([ABSENT, jobset(terminalState="Completed")], log)
    assert code == 1 and "rank 0 has written no report" in output
    assert "line 98" in output and "line 50" not in output


@pytest.mark.parametrize("log", ["", "lost"])
def test_a_log_that_cannot_be_read_is_no_missing_report(
    log: str, rehearse: Rehearse, helm: Calls
) -> None:
    with pytest.raises(UnknownState, match="dpo-rehearsal has ended, and"):
        rehearse([ABSENT, jobset(terminalState="Completed")], log)
    assert [words[0] for words in helm] == ["uninstall", "install"]


def test_a_rehearsal_that_runs_is_left_alone(rehearse: Rehearse, helm: Calls) -> None:
    with pytest.raises(Problem, match="dpo-rehearsal is already running"):
        rehearse([jobset()])
    assert helm == []


def test_one_that_has_ended_is_replaced_and_may_be_kept(rehearse: Rehearse, helm: Calls) -> None:
    states = [jobset(terminalState="Failed"), jobset(terminalState="Completed")]
    code, _ = rehearse(states, TABLE, Request(run="dpo", files=[VALUES], keep=True))
    assert (code, [words[0] for words in helm]) == (0, ["uninstall", "install"])


@pytest.mark.parametrize(
    ("states", "message"), [([ABSENT, jobset(), ABSENT], "was deleted"), ([LOST], "can't be read")]
)
def test_a_jobset_that_is_gone_is_said(
    states: Sequence[Answer], message: str, rehearse: Rehearse
) -> None:
    with pytest.raises(Problem, match=message):
        rehearse(states)


def test_a_server_that_stays_away_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, rehearse: Rehearse
) -> None:
    monkeypatch.setattr(command, "LOST_SECONDS", 0.0)
    with pytest.raises(Problem, match="the state of dpo-rehearsal is unknown: no answer"):
        rehearse([ABSENT, jobset(), LOST])


def test_a_claim_of_its_own_is_refused(rehearse: Rehearse) -> None:
    sets = ["workspace.existingClaim=", "workspace.pvc.size=1Ti"]
    given = Request(run="dpo", files=[Path("values/a100-2node.yaml")], sets=sets)
    with pytest.raises(Problem, match="name it in workspace.existingClaim"):
        rehearse([ABSENT], (), given)
