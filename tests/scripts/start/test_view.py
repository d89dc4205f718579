"""What is said of a run whose start cannot be predicted, and how the ends of others are read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.doctor.api import WORKLOADS, Answer, Api
from scripts.helm import ROOT
from scripts.observe.ahead import Ahead
from scripts.observe.cluster import ALL_WORKLOADS, CHART, CHART_LABEL, QUEUES
from scripts.observe.command import Target, observe
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.start.forecast import Start
from scripts.start.view import start
from scripts.status import listing
from scripts.why.reasons import explain
from tests.scripts.observe import planted
from tests.scripts.observe.fixtures import CORE, JOBSETS, KUEUE
from tests.scripts.observe.planted import Object, listed, pending, refused, suspended, workload
from tests.scripts.observe.server import Cluster
from tests.scripts.why.queueing import SHORT, asks, quota_of
from tests.scripts.why.states import STATES


def begins(seen: View) -> Start | None:
    return start(seen, explain(seen)[0])


def waits(*others: Object, **answers: Answer) -> View:
    own = asks(16, pending(SHORT, "WaitingForQuota"))
    made: dict[str, Any] = quota_of(24) | answers
    return View(planted.snapshot(suspended(), workloads=[own], others=others, **made))


BIG = workload(name="jobset-big-2", holds=16)
COHORT = {"metadata": {"name": "gpus"}, "spec": {"cohortName": "all"}}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"list_clusterqueues": refused(), "get_clusterqueues": refused()}, "get clusterqueues"),
        (
            {"list_clusterqueues": refused(), "get_clusterqueues": planted.found(COHORT)},
            "list clusterqueues",
        ),
        (
            {"list_clusterqueues": listed([COHORT]), "list_cohorts": refused()},
            "what cohorts lend is not known (list cohorts",
        ),
        ({"list_localqueues_everywhere": refused(), "get_localqueues": refused()}, "localqueues"),
        ({"list_clusterqueues": listed([])}, "not known"),
    ],
    ids=["cluster queue", "cohort", "cohorts", "local queues", "queue gone"],
)
def test_a_missing_right_is_one_sentence_and_no_guess(answers: Any, said: str) -> None:
    found = begins(waits(BIG, **answers))
    assert found and found.earliest is None and found.latest is None
    assert found.sentence.startswith("No start is predicted: ") and said in found.sentence


def test_runs_of_other_namespaces_that_may_not_be_read_are_said() -> None:
    [queue] = quota_of(24)["list_clusterqueues"].items
    used = [{"name": "a100", "resources": [{"name": "nvidia.com/gpu", "total": "24"}]}]
    own = {**queue, "status": {"flavorsReservation": used, "pendingWorkloads": 1}}
    only = {"list_clusterqueues": listed([own]), "list_workloads_everywhere": refused()}
    found = begins(waits(BIG, **only))
    assert found and found.latest is None
    assert any("other namespaces, which you may not read" in each for each in found.reasons)


@pytest.mark.parametrize("id", ["quota-exceeds-maximum", "topology-does-not-fit", "stopped"])
def test_a_run_that_waiting_does_not_help_has_no_start(id: str) -> None:
    found = begins(STATES[id][0]())
    assert found and found.earliest is None and found.sentence.startswith("No start is predicted")


@pytest.mark.parametrize(
    "id", ["training", "admission-check-pending", "suspended", "run-not-found"]
)
def test_a_run_that_does_not_wait_for_quota_has_none(id: str) -> None:
    assert begins(STATES[id][0]()) is None


def test_room_that_kueue_does_not_see_is_not_a_start() -> None:
    found = begins(waits())
    assert found and found.earliest is None and "Kueue says there is not" in found.sentence


def test_clocks_apart_are_said() -> None:
    seen = waits(BIG)
    ahead = View(replace(seen.snapshot, skew=600.0, left={"uid-jobset-big-2": 5400.0}))
    found = begins(ahead)
    assert found and found.expected and found.expected > seen.now, "by the server's clock"
    assert "this machine's is 10 min ahead of it" in found.sentence


@pytest.fixture
def queued(cluster: Cluster, workspace: Path) -> Cluster:
    """A run that waits for one that trains in a folder of this machine, 30 min from its end."""
    waiting = suspended()
    waiting["metadata"] |= {"name": "next", "uid": "u-2"}
    for rank in (0, 1):
        made = planted.pod(rank, planted.RUNNING)
        made["metadata"]["labels"] |= {CHART_LABEL: CHART}
        cluster.put(f"{CORE}/pods", made)
    cluster.put(JOBSETS, waiting)
    own = asks(16, pending(SHORT, name="jobset-next-2", of="u-2"))
    cluster.put(f"{KUEUE}/workloads", workload(holds=16, of="u-1"), own)
    entrance = {"name": "gpu", "namespace": "team"}
    cluster.put(f"{KUEUE}/localqueues", {**planted.LOCAL_QUEUE, "metadata": entrance})
    [queue] = quota_of(16)["list_clusterqueues"].items
    cluster.put("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", dict(queue))
    return cluster


def train(workspace: Path, api: Api) -> None:
    now = api.get("/apis").time or 0.0
    made = Row(step=80, total=100, attempt=1, time=now - 300, seconds=90.0)
    home = workspace / "runs" / "dpo"
    (home / "metrics.jsonl").write_text(rows.line(made) + "\n")
    training = {"step": 80, "total": 100, "eta_seconds": 1800.0}
    done = {"state": "running", "stage": "train", "training": training}
    (home / "progress.json").write_text(json.dumps(done))


@pytest.mark.parametrize("verb", ["why", "list"])
def test_the_progress_of_the_run_ahead_is_read_in_its_pod(
    verb: str, queued: Cluster, api: Api, workspace: Path
) -> None:
    train(workspace, api)
    if verb == "why":
        seen, _ = observe(Target(run="next"), api, reader=False)
        found = begins(seen)
        now = seen.now
    else:
        read = [listing._read(api, each, Target(run="")) for each in listing.snapshots(api)]
        [line] = [s for s in listing._statuses([v for v, _ in read]) if s.run == "next"]
        found, now = line.start, read[0][0].now
    assert found and found.expected and not found.reasons
    assert 1350 <= found.expected - now <= 1700, "the step is 300 s old"


def test_the_deadline_of_its_jobs_bounds_a_run_without_readable_files(
    queued: Cluster, api: Api
) -> None:
    queued.forbidden.add("GET /exec")
    meta = {"name": "dpo-node-0", "labels": {"jobset.sigs.k8s.io/jobset-name": "dpo"}}
    begun = {"metadata": meta, "spec": {"activeDeadlineSeconds": 10**9}}
    begun["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    queued.put("/apis/batch/v1/namespaces/team/jobs", begun)
    seen, _ = observe(Target(run="next"), api, reader=False)
    found = begins(seen)
    assert found and found.latest and found.reasons == ("only the time limit is known of dpo",)


def test_ends_are_read_once_a_minute_and_never_with_source_api(queued: Cluster, api: Api) -> None:
    ahead = Ahead(source=Source.API)
    for _ in range(2):
        queued.asked.clear()
        seen, _ = observe(Target(run="next"), api, reader=False, ahead=ahead)
    assert ALL_WORKLOADS in seen.snapshot.answers and not seen.snapshot.left
    assert not any(each.endswith("jobsets/dpo") or "exec" in each for each in queued.asked)


def test_the_role_in_the_readme_allows_what_a_forecast_lists() -> None:
    page = (ROOT / "scripts" / "start" / "README.md").read_text(encoding="utf-8")
    role, binding = yaml.safe_load_all(page.partition("```yaml\n")[2].partition("```")[0])
    assert [rule["verbs"] for rule in role["rules"]] == [["list"], ["list"]]
    required, optional = (rule["resources"] for rule in role["rules"])
    assert sorted(required) == sorted(path.rpartition("/")[2] for path, _ in QUEUES.values())
    assert optional == [WORKLOADS.path("").rpartition("/")[2]]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
