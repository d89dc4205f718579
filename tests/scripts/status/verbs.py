"""The output of `logs` and of the verbs that change a run, from command line to exit code.

The cluster is that of `fixtures.py`. Times, folders of the test and Helm's path are replaced.
"""

import io
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from scripts.control import cleaning
from scripts.control import command as control
from scripts.doctor import command as doctor
from scripts.doctor.findings import Report, fail, ok, warn
from scripts.helm import CHART
from scripts.logs import command as logs
from scripts.logs.command import Selection
from scripts.observe.command import Target
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.plan import command as planning
from scripts.problem import Problem
from scripts.submit import command as submit
from scripts.submit import follow
from scripts.submit.follow import Until
from tests.scripts.control.test_removal import plant
from tests.scripts.doctor.healthy import release
from tests.scripts.observe.fixtures import JOBSETS, KUEUE, at
from tests.scripts.observe.planted import RUNNING, condition, jobset, pod, suspended, view, workload
from tests.scripts.observe.server import Cluster
from tests.scripts.why.states import STATES

CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
TARGET = Target(run="dpo", source=Source.API)
FINDINGS = [
    ok("queue", "queue gpu", "LocalQueue gpu leads to ClusterQueue gpus"),
    warn("image", "image", "not checked, because a registry is not asked", "Pull it once by hand."),
]
REFUSED = fail("secret", "Secret hf-token", "does not exist", "kubectl create secret generic ...")


@dataclass(frozen=True, kw_only=True)
class Stage:
    cluster: Cluster
    workspace: Path
    patch: pytest.MonkeyPatch
    console: Console

    def case(self, title: str, act: Callable[[], int]) -> None:
        """Draw one call with its exit code, or the message that it ends with."""
        self.console.print(f"$ megatron-dpo {title}", soft_wrap=True)
        try:
            code = act()
        except Problem as problem:
            self.console.print(f"error: {problem}", soft_wrap=True, highlight=False)
            code = 1
        self.console.print(f"[exit {code}]\n", highlight=False)

    def clean(self, text: str) -> str:
        """Return a screen without what differs between two machines or times."""
        text = text.replace(str(self.workspace), "/mnt/dpo").replace(str(CHART), "chart")
        return re.sub(r"\d\d:\d\d:\d\dZ", "10:26:40Z", text)


def _yes(question: str) -> bool:
    return True


def _no(question: str) -> bool:
    return False


def draw_control(stage: Stage) -> None:
    """`stop`, `resume`, `rerun`, each as it works and as it has nothing to do."""
    verbs = {"stop": control.stop, "resume": control.resume, "rerun": control.rerun}

    def act(*titles: str, ask: Callable[[str], bool] = _yes) -> None:
        for title in titles:
            verb, run, *_ = title.split()
            target = Target(run=run, source=Source.API)
            stage.case(title, partial(verbs[verb], target, stage.console, ask))

    act("stop dpo", ask=_no)
    act("stop dpo --yes", "stop dpo --yes", "resume dpo --yes", "resume dpo")
    stage.patch.setattr(control, "installed", lambda api, run: release())
    act("rerun dpo", "stop dpp")
    failed = jobset(condition("Failed", "True", "x"), terminalState="Failed")
    stage.cluster.put(JOBSETS, failed)
    act("resume dpo", "rerun dpo --yes")
    stage.cluster.put(JOBSETS, jobset())
    stage.cluster.forbidden.add("PATCH /workloads")
    act("stop dpo --yes")


def draw_clean(stage: Stage) -> None:
    """`clean`: the list, a removal, refusals. All below the test's folder."""
    root, console = stage.workspace, stage.console
    plant(root, "dpo-41")
    plant(root, "dpo-42", "running", export=False)
    mounted, through = Target(run="", workspace=root), Target(run="dpo")

    def clean(words: str, target: Target, run: str, ask: Callable[[str], bool] = _yes) -> None:
        stage.case(f"clean {words}", lambda: cleaning.remove(target, [run], console, ask))

    stage.case("clean", lambda: cleaning.clean(mounted, console))
    clean("dpo-41", mounted, "dpo-41", _no)
    clean("dpo-41 --yes", mounted, "dpo-41")
    clean("dpo-42", mounted, "dpo-42")
    plant(root, "dpo-41")
    clean("dpo-41 --through dpo --yes", through, "dpo-41")
    clean("dpo-42 --through dpo", through, "dpo-42")
    clean("dpo-41", Target(run="dpo-41"), "dpo-41")
    stage.case("clean", lambda: cleaning.clean(Target(run=""), console))
    stage.case("clean --through dpp", lambda: cleaning.clean(Target(run="dpp"), console))


def draw_logs(stage: Stage) -> None:
    """`logs` of pods, of an attempt's files, and of what there is not. It knows no width."""
    for rank in (0, 1):
        stage.cluster.log(rank, f"step {rank}\nloss 0.6\n".encode())
        folder = stage.workspace / "runs" / "dpo" / "attempts" / "1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"node-{rank}.log").write_text(f"attempt 1 of rank {rank}\n")
    reading = Target(run="dpo", workspace=stage.workspace)
    for title, chosen in (
        ("logs dpo", Selection()),
        ("logs dpo --rank 1 --tail 1", Selection(rank=1, tail=1)),
        ("logs dpo --all --attempt 1", Selection(all_ranks=True, attempt=1)),
        ("logs dpo --attempt 3", Selection(attempt=3)),
        ("logs dpo --rank 2", Selection(rank=2)),
    ):
        stage.case(title, partial(_logs, stage, reading, chosen))


def _logs(stage: Stage, target: Target, chosen: Selection) -> int:
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            return logs.run(target, chosen)
    finally:
        stage.console.print(output.getvalue(), end="", soft_wrap=True, highlight=False)


def draw_submit(stage: Stage) -> None:
    """`submit`: a dry run, a run that waits, runs, fails; what the checks refuse."""
    console, patch = stage.console, stage.patch
    files = [Path("values/a100-2node.yaml")]
    request = submit.Request(target=TARGET, files=files, dry_run=True)
    helm = stage.workspace / "helm"
    helm.write_text("#!/bin/sh\nexit 0\n")
    helm.chmod(0o755)
    findings = list(FINDINGS)
    report = Report(context="here", namespace="team", run="dpo", findings=findings)
    patch.setattr(planning, "run", lambda request, console: console.print("(plan)") or 0)
    patch.setattr(doctor, "diagnose", lambda request: report)
    patch.setattr(submit, "find_helm", lambda: helm)
    patch.setattr(follow, "POLL_SECONDS", 0.0)
    values = "submit -f values/a100-2node.yaml --run dpo"
    stage.case(f"{values} --dry-run", lambda: submit.run(request, console))
    stage.cluster.put(JOBSETS, at(suspended(), stage.workspace))
    stage.cluster.put(CLUSTER_QUEUES, {"metadata": {"name": "gpus"}, "spec": {}})
    stage.cluster.put(f"{KUEUE}/workloads", workload(of="u-1"))
    stage.case(values, lambda: submit.run(replace(request, dry_run=False), console))
    stage.case(f"{values} --until first-step", lambda: _followed(console, *WORKS))
    stage.case(f"{values} --until first-step", lambda: _followed(console, *FAILS))
    findings.append(REFUSED)
    stage.case(values, lambda: submit.run(replace(request, dry_run=False), console))
    findings.pop()
    said = "Error: UPGRADE FAILED: nodes: must be positive"
    helm.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    stage.case(values, lambda: submit.run(replace(request, dry_run=False), console))


WORKS = [
    *(STATES[id][0]() for id in ("quota-short", "pulling")),
    view(jobset(), pods=[pod(0, RUNNING), pod(1, RUNNING)]),
    STATES["training"][0](),
]
FAILS = [STATES[id][0]() for id in ("queued", "preparing", "jobset-user-rule")]


def _followed(console: Console, *views: View) -> int:
    left = iter(views)

    def look() -> tuple[View, Sequence[str]]:
        return next(left), []

    return follow.follow(look, Until.FIRST_STEP, console)


DRAW = {"control": draw_control, "clean": draw_clean, "logs": draw_logs, "submit": draw_submit}
