"""clean through pods: by exec, by a reader pod that is removed; the rules hold there, too.

A pod of the test's cluster is a process of this machine: its workspace is a folder of the test.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launchers.state import contents
from scripts.control import cleaning
from scripts.doctor.api import Api
from scripts.observe.cluster import gather
from scripts.observe.command import Exit, Target
from scripts.observe.pods import CHANGE_SECONDS, READER_SECONDS, folder_in_pod
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import Problem, UnknownState
from tests.scripts.control.test_removal import names, plant
from tests.scripts.observe.fixtures import CORE, JOBSETS, at
from tests.scripts.observe.planted import condition, ended, jobset, pod
from tests.scripts.observe.server import Cluster

THROUGH = Target(run="dpo")


@pytest.fixture(autouse=True)
def root(api: Api, workspace: Path, tmp_path: Path) -> Path:
    """The workspace of the pods of `dpo`, which has a lock, with two more runs."""
    assert Path(folder_in_pod(View(gather(api, "dpo")))) == workspace
    assert workspace.is_relative_to(tmp_path)
    (workspace / "runs" / "dpo" / "run.lock").write_text("{}")
    plant(workspace, "dpo-41")
    plant(workspace, "dpo-42", "failed", export=False)
    return workspace


def cleaned(
    *runs: str, target: Target = THROUGH, yes: bool = True, as_data: bool = False
) -> tuple[int, str]:
    console = Console(width=400)
    with console.capture() as captured:
        if runs:
            code = cleaning.remove(target, runs, console, lambda _: yes, as_data=as_data)
        else:
            code = cleaning.clean(target, console, as_data=as_data)
    return code, captured.get()


def made_pods(cluster: Cluster) -> list[tuple[bool, int]]:
    """Of each created pod: True if it mounts the workspace read-only, and its lifetime."""
    specs = [pod["spec"] for method, _, pod in cluster.changes if method == "POST"]
    mounts = [spec["containers"][0]["volumeMounts"][0].get("readOnly", False) for spec in specs]
    return list(zip(mounts, (spec["activeDeadlineSeconds"] for spec in specs), strict=True))


def test_a_run_is_removed_by_exec_in_a_pod_of_another_run(root: Path, cluster: Cluster) -> None:
    code, text = cleaned("dpo-41")
    assert code == Exit.OK and names(root) == ["dpo", "dpo-42"]
    assert "exec in pod dpo-node-0-0-x7k2p: " in text and str(root / "runs" / "dpo-41") in text
    assert text.endswith("removed dpo-41\n") and cluster.changes == []


def test_without_exec_two_pods_list_and_remove_and_are_gone(root: Path, cluster: Cluster) -> None:
    cluster.forbidden.add("GET /exec")
    code, text = cleaned("dpo-41")
    assert code == Exit.OK and names(root) == ["dpo", "dpo-42"]
    assert "a reader pod of dpo: " in text
    assert made_pods(cluster) == [(True, READER_SECONDS), (False, CHANGE_SECONDS)]
    assert not any("reader" in path for path in cluster.objects)


def test_a_run_that_has_ended_is_removed_through_itself(root: Path, cluster: Cluster) -> None:
    over = jobset(condition("Completed", "True", "AllJobsCompleted"), terminalState="Completed")
    over["metadata"]["name"] = "dpo-41"
    cluster.put(JOBSETS, at(over, root))
    code, text = cleaned("dpo-41", target=Target(run="dpo-41"))
    assert code == Exit.OK and names(root) == ["dpo", "dpo-42"]
    assert "a reader pod of dpo-41: " in text


@pytest.mark.parametrize("source", [Source.AUTO, Source.POD])
@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("dpo-42", "may resume from checkpoint-20"),
        ("dpo", "launcher leads it"),
        ("dpo-7", "no such run"),
        ("../models", "not the name of a run"),
    ],
)
def test_the_rules_hold_in_a_pod_too(root: Path, source: Source, run: str, why: str) -> None:
    with pytest.raises(Problem, match=why):
        cleaned("dpo-41", run, target=Target(run="dpo", source=source))
    assert names(root) == ["dpo", "dpo-41", "dpo-42"]


def test_a_run_whose_jobset_may_start_again_is_refused(root: Path, cluster: Cluster) -> None:
    """It has no checkpoint yet, and no launcher leads it: its gang is being restarted."""
    plant(root, "dpo-43", "failed", export=False, step=None)
    queued = jobset()
    queued["metadata"]["name"] = "dpo-43"
    cluster.put(JOBSETS, at(queued, root))
    with pytest.raises(Problem, match="dpo-43: its JobSet has not ended"):
        cleaned("dpo-43")
    for fault in ("500", "429", "403", "drop"):
        cluster.faults["/jobsets/dpo-43"] = [fault]
        with pytest.raises(UnknownState, match="dpo-43: whether its JobSet may start it again"):
            cleaned("dpo-43")
    assert "dpo-43" in names(root)


def test_what_changes_between_the_list_and_the_removal_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def yes(question: str) -> bool:
        (root / "runs" / "dpo-41" / "run.lock").write_text("{}")
        return True

    with pytest.raises(Problem, match="launcher leads it"):
        cleaning.remove(THROUGH, ["dpo-41"], Console(quiet=True), yes)
    assert "dpo-41" in names(root)


def test_the_list_and_the_removal_as_json(root: Path) -> None:
    _, text = cleaned(as_data=True)
    found = json.loads(text)
    assert (found["schema"], found["workspace"]) == (1, "exec in pod dpo-node-0-0-x7k2p")
    may_resume = {each["run"]: each["may_resume"] for each in found["runs"]}
    assert may_resume == {"dpo": True, "dpo-41": False, "dpo-42": True}
    code, text = cleaned("dpo-41", as_data=True)
    assert (code, json.loads(text)["removed"]) == (Exit.OK, ["dpo-41"])


def test_a_list_of_another_launcher_is_read_or_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = contents.inventory(root)[0]
    listed: dict[str, Any] = {"why": "", "runs": [{**found, "of_later_launchers": 1}]}
    monkeypatch.setattr(cleaning.Place, "call", lambda *words: listed)
    assert cleaning.read(THROUGH)[1][0].run == found["run"]
    del listed["runs"][0]["unread"]
    with pytest.raises(Problem, match="of another version"):
        cleaning.read(THROUGH)


def test_a_place_that_is_none_is_refused_with_what_there_is(root: Path, cluster: Cluster) -> None:
    with pytest.raises(Problem, match=r"no run dpo-41 in namespace team whose pods .* --through"):
        cleaned("dpo-41", target=Target(run="dpo-41"))
    with pytest.raises(Problem, match="is not mounted here"):
        cleaned(target=Target(run=""))
    cluster.forbidden |= {"GET /exec", "POST /pods"}
    with pytest.raises(Problem, match="exec in pod .* a reader pod was refused"):
        cleaned("dpo-41")
    cluster.put(f"{CORE}/pods", *(pod(rank, ended(0)) for rank in (0, 1)))
    with pytest.raises(Problem, match="no pod of dpo runs"):
        cleaned("dpo-41", target=Target(run="dpo", source=Source.EXEC))
    assert names(root) == ["dpo", "dpo-41", "dpo-42"]
