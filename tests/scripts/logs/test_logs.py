"""logs: ranks, attempts, restarts, deleted pods, refusals, and 10,000 lines a second."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.doctor.api import Api
from scripts.logs import command, follow
from scripts.logs.command import Selection
from scripts.observe.command import Target
from scripts.observe.ways import Source
from scripts.problem import Problem
from tests.scripts.observe.fixtures import CORE, complete
from tests.scripts.observe.planted import RUNNING, Object, ended, pod
from tests.scripts.observe.server import Cluster
from tests.scripts.observe.timed import timed

TARGET = Target(run="dpo")
PODS = f"{CORE}/pods"
LINES_PER_SECOND = 10_000
Logs = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(follow, "SETTLE_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def logged(cluster: Cluster, workspace: Path) -> None:
    for rank in (0, 1):
        put(cluster, pod(rank, RUNNING), f"{rank} starts\nloss 0.{rank}\n")
        for attempt in (1, 2):
            folder = workspace / "runs" / "dpo" / "attempts" / str(attempt)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"node-{rank}.log").write_text(f"a{attempt} of {rank}\nloss {attempt}\n")
            (folder / "start.json").write_text(json.dumps({"resume": 0}))


def put(cluster: Cluster, made: Object, log: str, uid: str = "") -> None:
    made["metadata"]["uid"] = uid or made["metadata"]["name"]
    cluster.put(PODS, made)
    cluster.logs[made["metadata"]["name"]] = log.encode()


@pytest.fixture
def logs(api: Api, capsys: pytest.CaptureFixture[str]) -> Logs:
    """Print lines of the run; return stdout and stderr."""

    def printed(target: Target = TARGET, **chosen: Any) -> tuple[str, str]:
        assert command.run(target, Selection(**chosen)) == 0
        return capsys.readouterr()

    return printed


def test_rank_0_is_printed_or_another_or_all_each_line_with_its_rank(logs: Logs) -> None:
    assert logs()[0] == "rank 0 | 0 starts\nrank 0 | loss 0.0\n"
    assert logs(rank=1)[0] == "rank 1 | 1 starts\nrank 1 | loss 0.1\n"
    both, _ = logs(all_ranks=True, grep="^loss")
    assert sorted(both.splitlines()) == ["rank 0 | loss 0.0", "rank 1 | loss 0.1"]
    assert logs(tail=1)[0] == "rank 0 | loss 0.0\n"
    for attempt in (None, 1):
        assert logs(tail=0, attempt=attempt, all_ranks=True)[0] == ""


def test_a_rank_attempt_or_pattern_that_is_none_is_refused_with_what_there_is(api: Api) -> None:
    for chosen, why in (
        (Selection(rank=2), "has ranks 0 to 1, not 2"),
        (Selection(attempt=3), "no attempt 3; its attempts: 1, 2"),
        (Selection(grep="("), "not a regular expression"),
    ):
        with pytest.raises(Problem, match=why):
            command.run(TARGET, chosen)
    with pytest.raises(Problem, match=r"no run dpp in namespace team .* nearest: dpo|dpo"):
        command.run(Target(run="dpp"), Selection())


@pytest.mark.parametrize("source", [Source.EXEC, Source.POD, Source.MOUNT])
def test_an_attempt_is_read_from_its_files_in_each_way(
    source: Source, logs: Logs, cluster: Cluster, workspace: Path
) -> None:
    mounted = workspace if source is Source.MOUNT else None
    target = Target(run="dpo", source=source, workspace=mounted)
    text, _ = logs(target, attempt=1, all_ranks=True)
    assert text == "".join(f"rank {rank} | a1 of {rank}\nrank {rank} | loss 1\n" for rank in (0, 1))
    assert logs(target, attempt=1, tail=1)[0] == "rank 0 | loss 1\n"
    assert not any("reader" in path for path in cluster.objects)


def test_stacks_are_those_of_the_pods_that_run(
    logs: Logs, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(_: object, __: object, name: str, words: object) -> bytes:
        assert words == ("state", "--stacks")
        asked.append(name)
        return b"process of rank 3\n  in step\n"

    monkeypatch.setattr(command, "run_in_pod", run)
    put(cluster, pod(1, ended(1)), "")
    out, err = logs(stacks=True)
    assert out == "rank 0 | process of rank 3\nrank 0 |   in step\n"
    assert (asked, err) == (["dpo-node-0-0-x7k2p"], "no pod of rank 1 runs\n")
    with pytest.raises(Problem, match="without --follow, --attempt and --tail"):
        command.run(TARGET, Selection(stacks=True, follow=True))
    with pytest.raises(Problem, match="no rank of run dpo has given its stacks"):
        command.run(TARGET, Selection(stacks=True, rank=1))


def test_deleted_pods_leave_the_files_of_the_newest_attempt(
    logs: Logs, cluster: Cluster, workspace: Path
) -> None:
    complete(cluster, workspace)
    cluster.drop_pods()
    out, err = logs(follow=True)
    assert out == "rank 0 | a2 of 0\nrank 0 | loss 2\n"
    assert err == "no pod of rank 0 has a log\nfrom the files of attempt 2\n"


def test_a_rank_whose_pod_is_gone_does_not_hide_the_others(logs: Logs, cluster: Cluster) -> None:
    del cluster.objects[f"{PODS}/dpo-node-0-1-x7k2p"]
    text, _ = logs(all_ranks=True)
    assert text == "rank 0 | 0 starts\nrank 0 | loss 0.0\nrank 1 | a2 of 1\nrank 1 | loss 2\n"


def test_a_log_that_may_not_be_read_is_named_and_the_files_are_printed(
    logs: Logs, cluster: Cluster
) -> None:
    cluster.forbidden.add("GET /log")
    out, err = logs()
    assert "dpo-node-0-0-x7k2p/log is forbidden" in err
    assert out == "rank 0 | a2 of 0\nrank 0 | loss 2\n"


def test_a_followed_log_continues_with_the_next_pod_until_the_run_has_ended(
    logs: Logs, cluster: Cluster, workspace: Path
) -> None:
    put(cluster, pod(0, ended(1)), "first\n", uid="u1")

    def restarted(url: str) -> None:
        """The log is followed: then a new pod is there, and the run ends with it."""
        if "follow" not in url:
            return
        second = {"name": "dpo-node-0-0-second", "creationTimestamp": "2026-11-18T11:00:00Z"}
        made = pod(0, ended(0), metadata=second)
        put(cluster, made, "second\n", uid="u2")
        complete(cluster, workspace)

    cluster.hooks["/dpo-node-0-0-x7k2p/log"] = restarted
    assert logs(follow=True)[0] == "rank 0 | first\nrank 0 | second\n"


def test_a_connection_that_breaks_is_opened_again_while_the_pod_runs(
    logs: Logs, cluster: Cluster, workspace: Path
) -> None:
    asked: list[str] = []

    def later(url: str) -> None:
        asked.extend([url] if "follow" in url else [])
        if len(asked) == 2:
            put(cluster, pod(0, ended(0)), "later\n")
            complete(cluster, workspace)

    cluster.hooks["/dpo-node-0-0-x7k2p/log"] = later
    assert logs(follow=True, tail=1)[0] == "rank 0 | loss 0.0\nrank 0 | later\n"
    assert "tailLines=1" in asked[0] and "sinceSeconds" not in asked[0]
    assert "sinceSeconds=" in asked[1] and "tailLines" not in asked[1]


def test_ten_thousand_lines_a_second_are_printed(
    api: Api, cluster: Cluster, tmp_path: Path
) -> None:
    count, step = 100_000, "step 12/107 loss 0.6931 tokens/s 13180 memory 71.2 GiB"
    for rank in (0, 1):
        cluster.log(rank, f"2026-11-18T10:00:00Z INFO rank=0 {step}\n".encode() * (count // 2))
    for _ in range(2):
        start = timed(tmp_path, "logs", "dpo", "--tail", "1", "--source", "api")
    made = timed(tmp_path, "logs", "dpo", "--all", "--source", "api", "--grep", "loss")
    assert made.done.stdout.count("\n") == count
    assert count / (made.seconds - start.seconds) > LINES_PER_SECOND
