"""`megatron-dpo rehearse`: install a release with `rehearse: true`, wait, print its report.

The rehearsal of NAME is a release of its own, NAME-rehearsal, so that the run can be installed as
NAME afterwards: one release is one run, which an upgrade can't change.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from launchers.config.settings import REHEARSAL
from launchers.rehearsal.result import LINE, table
from launchers.system.atomic_file import known_object
from scripts.doctor import command as doctor
from scripts.doctor.api import JOBSETS, PODS, Answer, Api, connect
from scripts.helm import CHART, find_helm, options, run_helm, template
from scripts.local.command import Request as LocalRequest
from scripts.local.command import run_locally
from scripts.manifest import GANG, Release, parse_release
from scripts.observe.cluster import INDEX_LABEL, JOB_LABEL, NAME_LABEL
from scripts.observe.view import terminal_state
from scripts.problem import Problem, UnknownState

SETS = ("rehearse=true",)
POLL_SECONDS = 5.0
LOST_SECONDS = 300.0
"""Time without an answer of the API server after which the command gives up."""
TAIL_LINES = 20
"""Lines of rank 0's log that are printed if it has no report."""


@dataclass(frozen=True, kw_only=True)
class Request(doctor.Request):
    """The options of `megatron-dpo rehearse`; ``run`` is the one that is rehearsed."""

    keep: bool = False
    """Leave the release in the cluster after a rehearsal without a failure."""

    @property
    def release(self) -> str:
        """Return the name of the rehearsal's release."""
        return f"{self.run}-{REHEARSAL}"


def run(request: Request, console: Console) -> int:
    """Rehearse on the cluster; return 0 if the long run may start, otherwise 1.

    Raises:
        Problem: the chart or Helm refuses the values, a rehearsal is running, or the API server
            does not answer.
    """
    rendered = parse_release(template(request.release, request.files, [*request.sets, *SETS]))
    _refuse_own_claim(rendered)
    api = connect(request.context, request.namespace)
    state = api.get(JOBSETS.path(api.namespace, request.release))
    if state.unknown:
        raise Problem(f"the JobSet {request.release} can't be read: {state.why}")
    if state.found and not terminal_state(state.content):
        raise Problem(
            f"{request.release} is already running; wait for its end, or stop it with "
            + _command_line(uninstall(request, api))
        )
    _helm(uninstall(request, api))
    _helm(install(request, api))
    console.print(f"{request.release} is installed in namespace {api.namespace}", highlight=False)
    ending = wait(api, request.release, lambda text: console.print(text, highlight=False))
    lines = report_lines(log_of_rank_0(api, request.release))
    console.print("\n".join(lines), soft_wrap=True, highlight=False)
    passed = ending == "Completed" and any(line.startswith("verdict: ") for line in lines)
    if passed and not request.keep:
        _helm(uninstall(request, api))
    else:
        console.print(
            f"the pods stay; remove them with {_command_line(uninstall(request, api))}",
            soft_wrap=True,
        )
    return 0 if passed else 1


def run_here(
    request: Request, console: Console, *, workspace: Path, python: str | None, verbose: bool
) -> int:
    """Rehearse on this machine, each pod as a process; return the exit status of the run."""
    local = LocalRequest(
        run=request.release,
        files=request.files,
        sets=[*request.sets, *SETS],
        workspace=workspace,
        python=python,
        verbose=verbose,
    )
    path = workspace.resolve() / "runs" / request.release / f"{REHEARSAL}.json"
    before = path.stat().st_mtime_ns if path.exists() else 0
    code = run_locally(local, console)
    if path.exists() and path.stat().st_mtime_ns != before:
        for line in table(known_object(path, "rehearse again")):
            console.print(line.removeprefix(LINE), soft_wrap=True, highlight=False)
        console.print(f"report: {path}", soft_wrap=True, highlight=False)
    return code


def describe(state: Answer) -> str:
    """Return the state of a JobSet in words, for a line whenever it changes.

    >>> describe(Answer(status=200, content={"spec": {"suspend": True}}))
    'queued'
    >>> describe(Answer(status=200, content={"status": {"restarts": 1}}))
    'running, 1 restart'
    """
    if over := terminal_state(state.content):
        return over.lower()
    if (state.content.get("spec") or {}).get("suspend"):
        return "queued"
    restarts = int((state.content.get("status") or {}).get("restarts") or 0)
    return "running" + (f", {restarts} restart{'s' * (restarts > 1)}" if restarts else "")


def wait(api: Api, name: str, say: Callable[[str], None], poll: float = POLL_SECONDS) -> str:
    """Wait for the end of a JobSet; return its terminal state.

    Raises:
        Problem: the JobSet was deleted, or the API server has not answered for LOST_SECONDS.
    """
    said, answered = "", time.monotonic()
    while True:
        state = api.get(JOBSETS.path(api.namespace, name))
        if state.found:
            answered = time.monotonic()
            if (now := describe(state)) != said:
                say(f"{name}: {now}")
                said = now
            if over := terminal_state(state.content):
                return over
        elif state.absent:
            raise Problem(f"the JobSet {name} was deleted during the rehearsal")
        elif time.monotonic() - answered > LOST_SECONDS:
            raise Problem(f"the state of {name} is unknown: {state.why}")
        time.sleep(poll)


def log_of_rank_0(api: Api, name: str) -> list[str]:
    """Return the lines of the log of rank 0's newest pod; empty without a pod.

    Raises:
        UnknownState: it cannot be read.
    """
    labels = {NAME_LABEL: name, JOB_LABEL: GANG, INDEX_LABEL: "0"}
    selector = ",".join(f"{label}={value}" for label, value in labels.items())
    answer = api.get(PODS.path(api.namespace), labelSelector=selector)
    if not answer.found:
        raise UnknownState(f"{name} has ended, and its pods cannot be listed: {answer.why}")
    if not answer.items:
        return []
    newest = max(answer.items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    path = PODS.path(api.namespace, newest["metadata"]["name"])
    text = api.text(f"{path}/log", container="launcher")
    if text is None:
        said = f"the log of its rank 0 cannot be read (get pods/log); `megatron-dpo logs {name}`"
        raise UnknownState(f"{name} has ended, and {said} reads it from the workspace")
    return text.splitlines()


def report_lines(log: Sequence[str]) -> list[str]:
    """Return the table in a log of rank 0, without its prefix; the log's end if it has none."""
    found = [line.removeprefix(LINE) for line in log if line.startswith(LINE)]
    return found or [*log[-TAIL_LINES:], "rank 0 has written no report"]


def install(request: Request, api: Api) -> list[str]:
    """Return the arguments of Helm that install the rehearsal."""
    values = options(request.files, [*request.sets, *SETS])
    return ["install", request.release, str(CHART), *_where(api), *values]


def uninstall(request: Request, api: Api) -> list[str]:
    """Return the arguments of Helm that remove the rehearsal; the workspace stays."""
    options = ["--ignore-not-found", "--cascade", "foreground", "--wait"]
    return ["uninstall", request.release, *options, *_where(api)]


def _where(api: Api) -> list[str]:
    return ["--namespace", api.namespace, "--kube-context", api.context]


def _command_line(words: Sequence[str]) -> str:
    return " ".join(["helm", *words])


def _helm(words: Sequence[str]) -> None:
    run_helm([str(find_helm()), *words])


def _refuse_own_claim(rendered: Release) -> None:
    """Refuse a workspace that belongs to the release: the run would find no caches there."""
    claims: Mapping[str, Any] = rendered.claims
    if claims:
        raise Problem(
            f"workspace.pvc makes the claim {next(iter(claims))} for the rehearsal alone: it would "
            "stay, and the run would find none of its caches; create a claim for both and name it "
            "in workspace.existingClaim"
        )
