"""`logs` while the API server drops, stalls or refuses requests: `-f` continues, others say so."""

import re
from pathlib import Path

import pytest

from scripts.doctor import api as api_module
from scripts.doctor.api import Api
from scripts.logs import command, follow
from scripts.logs.command import Selection
from scripts.problem import Problem, UnknownState
from tests.scripts.logs.test_logs import PODS, TARGET, Logs, logs, put
from tests.scripts.observe.fixtures import JOBSETS, at, complete
from tests.scripts.observe.planted import ended, jobset, pod
from tests.scripts.observe.server import Cluster

__all__ = ["logs"]
POD = f"{PODS}/dpo-node-0-0-x7k2p"
LOST = "no answer of the API server ("


@pytest.fixture(autouse=True)
def finished(
    api: Api, cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """A run that has ended and whose pod is still there."""
    for module in (follow, command):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(follow, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(api_module, "TIMEOUT_SECONDS", (0.5, 0.5))
    monkeypatch.setattr(api_module, "FOLLOW_TIMEOUT_SECONDS", (0.5, 0.5))
    put(cluster, pod(0, ended(0)), "first\nlast\n")
    complete(cluster, workspace)
    return cluster


@pytest.mark.parametrize("fault", ["drop", "stall", "500", "503", "429"])
@pytest.mark.parametrize("path", [f"{JOBSETS}/dpo", PODS, f"{POD}/log"], ids=["run", "pods", "log"])
def test_a_followed_log_is_whole_over_lost_answers(
    fault: str, path: str, cluster: Cluster, logs: Logs
) -> None:
    cluster.faults[path] = [fault] * 3
    out, err = logs(follow=True)
    assert out == "rank 0 | first\nrank 0 | last\n"
    is_idle = fault == "stall" and path.endswith("/log")
    assert err.count(LOST) == (0 if is_idle else 1), "one note for one outage"


@pytest.mark.parametrize("fault", ["404", "405"])
def test_a_refusal_for_now_ends_no_follow(
    fault: str, cluster: Cluster, workspace: Path, logs: Logs
) -> None:
    cluster.faults[PODS] = ["", fault]  # the first is that of the state
    cluster.put(JOBSETS, at(jobset(), workspace))

    def end(url: str) -> None:
        if "follow" in url:
            complete(cluster, workspace)

    cluster.hooks["/log"] = end
    out, err = logs(follow=True)
    assert out == "rank 0 | first\nrank 0 | last\n"
    assert f"the API server refused the request (failed with {fault}); it is asked again" in err


@pytest.mark.parametrize(
    ("fault", "said"),
    [("401", "the API server does not accept the user"), ("403", "you lack the permission")],
)
@pytest.mark.parametrize("follow", [False, True])
def test_a_refused_login_is_not_called_a_missing_permission(
    fault: str, said: str, *, follow: bool, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.faults[PODS] = ["", fault]
    with pytest.raises(Problem, match="run dpo has no log yet"):
        command.run(TARGET, Selection(follow=follow))
    assert f"{said}: list pods (failed with {fault})" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["drop", "500"])
def test_a_log_that_is_not_followed_names_the_lost_answer(
    fault: str, cluster: Cluster, workspace: Path, logs: Logs
) -> None:
    folder = workspace / "runs" / "dpo" / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "node-0.log").write_text("of the files\n")
    cluster.faults[f"{POD}/log"] = [fault, fault]  # the first is that of the state
    out, err = logs()
    cause = "Remote end closed connection" if fault == "drop" else "failed with 500"
    assert (out, cause in err) == ("rank 0 | of the files\n", True)
    cluster.faults[f"{JOBSETS}/dpo"] = [fault]
    with pytest.raises(UnknownState, match=cause):
        command.run(TARGET, Selection())


def test_a_pod_that_is_deleted_before_its_log_is_read_ends_no_follow(
    cluster: Cluster, logs: Logs
) -> None:
    def delete(url: str) -> None:
        del cluster.objects[POD], cluster.logs["dpo-node-0-0-x7k2p"]

    cluster.hooks["/log"] = delete
    cluster.faults |= {f"{POD}/log": ["404"], POD: ["404"]}
    assert not re.search(r"\b404\b", logs(follow=True)[1])
