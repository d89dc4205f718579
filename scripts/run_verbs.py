"""The verbs of `megatron-dpo` about runs in a cluster; `cli.py` registers them.

The packages of the verbs are imported when a verb runs: the Kubernetes client takes 0.7 s.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from launchers.state.contents import is_name
from scripts.completion import complete_run
from scripts.observe.ways import Source
from scripts.terminal import terminal

if TYPE_CHECKING:
    from scripts.observe.command import Target

WORKSPACE = "MEGATRON_DPO_WORKSPACE"
"""Variable with the folder where the workspace is mounted on this machine."""
EXIT_CODES = "Exit codes: 0 done or running, 1 failed, 2 usage, 3 waiting, 4 the state is unknown."


def _check_name(context: typer.Context, option: typer.CallbackParam, given: str) -> str:
    """Return the name of a run or namespace; it becomes a part of paths on disk and in the API.

    Raises:
        BadParameter: it is not a name of Kubernetes.
    """
    if context.resilient_parsing or not given and not option.required:
        return given
    if not is_name(given):
        raise typer.BadParameter(_not_a_name(given))
    return given


def _check_names(
    context: typer.Context, option: typer.CallbackParam, given: list[str] | None
) -> list[str]:
    for each in given or []:
        if not context.resilient_parsing and not is_name(each):
            raise typer.BadParameter(_not_a_name(each))
    return list(given or [])


def _not_a_name(given: str) -> str:
    return (
        f"{given[:100]!r} is not a name such as dpo-42: at most 100 lower-case letters, digits, "
        "'-' and '.'"
    )


Run = Annotated[
    str,
    typer.Argument(
        help="Name of the run (the Helm release).",
        autocompletion=complete_run,
        callback=_check_name,
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="Default: the context's namespace.", callback=_check_name
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="Context of the kubeconfig; default: the current one."),
]
Workspace = Annotated[
    Path | None, typer.Option(envvar=WORKSPACE, help="Folder where the workspace is mounted here.")
]
RunsWorkspace = Annotated[
    Path,
    typer.Option(
        "--workspace",
        envvar=WORKSPACE,
        help="Folder of the shared volume; it holds runs/<run>.",
    ),
]
Sources = Annotated[Source, typer.Option("--source", help="How the workspace is read.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print each line as a JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Fix = Annotated[bool, typer.Option("--fix", help="Show what the remedy changes, and do it.")]
Values = Annotated[
    list[Path] | None,
    typer.Option("--values", "-f", help="Values file; later ones take precedence."),
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="key=value, overrides the files, as in Helm.")
]
Pairs = Annotated[
    int | None, typer.Option(min=1, max=10**12, help="Number of pairs in the dataset.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Plan and check only.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return once all ranks run.")]
Until = Annotated[
    Literal["first-step", "done"] | None,
    typer.Option("--until", help="Return at the first step, or the end."),
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Time in UTC by which the run saves, exports and ends: 08:00."),
]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", help="Money after which it does, by MEGATRON_DPO_PRICES.")
]
Among = Annotated[
    list[Path] | None,
    typer.Option("--among", help="Values file of another gang to choose from; repeat it."),
]
Submitted = Annotated[
    str, typer.Option("--run", help="Name of the run (the Helm release).", callback=_check_name)
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print again every 5 s.")]
Rank = Annotated[int | None, typer.Option("--rank", min=0, help="The rank to print (0).")]
AllRanks = Annotated[bool, typer.Option("--all", help="Print all ranks.")]
Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, help="Print the files of an attempt.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue, over restarts.")]
Grep = Annotated[str | None, typer.Option("--grep", help="Only lines with this pattern.")]
Tail = Annotated[int | None, typer.Option("--tail", min=0, help="Last lines of each rank only.")]
Stacks = Annotated[
    bool, typer.Option("--stacks", help="What the training processes do now: their stacks.")
]
Removed = Annotated[
    list[str] | None,
    typer.Argument(
        help="Runs to remove; none: only list.",
        show_default=False,
        autocompletion=complete_run,
        callback=_check_names,
    ),
]
Through = Annotated[
    str,
    typer.Option(
        help="Run whose pods mount the workspace, if it is not mounted here; default: RUN.",
        autocompletion=complete_run,
        callback=_check_name,
    ),
]


def submit(
    files: Values = None,
    sets: Sets = None,
    run: Submitted = "dpo",
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    until: Until = None,
    by: By = None,
    budget: BudgetOption = None,
    among: Among = None,
    as_json: Json = False,
) -> None:
    """Plan, check and install a run, then say why it waits."""
    from scripts.observe.command import Target
    from scripts.submit import command
    from scripts.submit.follow import Until as Goal

    goal = Goal(until) if until else Goal.RUNNING if wait else Goal.SUBMITTED
    request = command.Request(
        target=Target(run=run, namespace=namespace, context=context, workspace=workspace),
        files=files or [],
        sets=sets or [],
        dry_run=dry_run,
        until=goal,
        by=by,
        budget=budget,
        among=among or [],
    )
    raise typer.Exit(command.run(request, terminal(), as_data=as_json))


def list_runs(
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    source: Sources = Source.AUTO,
    as_json: Json = False,
) -> None:
    """List the runs of the namespace: state, step, time left, position, restarts."""
    from scripts.status import listing

    target = target_of("", namespace, context, workspace, source)
    raise typer.Exit(listing.run(target, terminal(), as_data=as_json))


def status(
    run: Run,
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    source: Sources = Source.AUTO,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Show how far a run is, how fast and how good, where it runs, and its attempts."""
    from scripts.status import command

    target = target_of(run, namespace, context, workspace, source)
    raise typer.Exit(command.run(target, terminal(), as_data=as_json, watch=watch))


def why(
    run: Run,
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    source: Sources = Source.AUTO,
    as_json: Json = False,
    fix: Fix = False,
    yes: Yes = False,
) -> None:
    """Say why a run waits, fails or has ended, and what to do."""
    from scripts.why import command

    target = target_of(run, namespace, context, workspace, source)
    if fix:
        from scripts.fix import cluster

        ask = asking(yes, as_json)
        raise typer.Exit(cluster.run(target, terminal(), ask, yes=yes, as_data=as_json))
    raise typer.Exit(command.run(target, terminal(), as_data=as_json))


def logs(
    run: Run,
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    source: Sources = Source.AUTO,
    rank: Rank = None,
    all_ranks: AllRanks = False,
    attempt: Attempt = None,
    follow: Follow = False,
    grep: Grep = None,
    tail: Tail = None,
    stacks: Stacks = False,
    as_json: JsonLines = False,
) -> None:
    """Print the output of ranks, each line with its rank."""
    from scripts.logs import command

    chosen = command.Selection(
        rank=rank,
        all_ranks=all_ranks,
        attempt=attempt,
        follow=follow,
        grep=grep,
        tail=tail,
        stacks=stacks,
        as_data=as_json,
    )
    target = target_of(run, namespace, context, workspace, source)
    raise typer.Exit(command.run(target, chosen))


def _changing(name: str, says: str) -> Callable[..., None]:
    """Return the verb that changes a run by the function of its name in `control/command.py`."""

    def verb(
        run: Run,
        namespace: Namespace = None,
        context: Context = None,
        as_json: Json = False,
        yes: Yes = False,
    ) -> None:
        from scripts.control import command

        target = target_of(run, namespace, context, None, Source.API)
        change = getattr(command, name)
        raise typer.Exit(change(target, terminal(), asking(yes, as_json), as_data=as_json))

    verb.__doc__ = says
    return verb


stop = _changing("stop", "Stop a run: its ranks save, its GPUs become free, its files stay.")
resume = _changing("resume", "Put a stopped run back into its queue.")
rerun = _changing(
    "rerun", "Start a run that has ended again; it resumes from its newest checkpoint."
)


def clean(
    runs: Removed = None,
    through: Through = "",
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    source: Sources = Source.AUTO,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """List what the workspace holds by run; remove the runs that are named.

    It works where the workspace is mounted, otherwise through a pod of a run. A run that may resume
    from a checkpoint is not removed.
    """
    from scripts.control import cleaning

    first = (runs or [""])[0]
    target = target_of(through or first, namespace, context, workspace, source)
    if runs:
        done = cleaning.remove(target, runs, terminal(), asking(yes, as_json), as_data=as_json)
    else:
        done = cleaning.clean(target, terminal(), as_data=as_json)
    raise typer.Exit(done)


VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "submit": (submit, "submit -f values/a100-2node.yaml --run dpo-42 --wait"),
    "list": (list_runs, "list -n team-a"),
    "status": (status, f"status dpo-42 --watch. {EXIT_CODES}"),
    "why": (why, f"why dpo-42. {EXIT_CODES}"),
    "logs": (logs, "logs dpo-42 --all -f --grep 'ERROR|loss'"),
    "stop": (stop, "stop dpo-42"),
    "resume": (resume, "resume dpo-42"),
    "rerun": (rerun, "rerun dpo-42 --yes"),
    "clean": (clean, "clean dpo-40 dpo-41 --through dpo-42"),
}
"""Each with its example, which stands below its help."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for name, (verb, example) in VERBS.items():
        app.command(name, epilog=f"Example: megatron-dpo {example}")(verb)


def target_of(
    run: str, namespace: str | None, context: str | None, workspace: Path | None, source: Source
) -> Target:
    """Return the run, the cluster and the way to read, from a command's options."""
    from scripts.observe.command import Target

    return Target(run=run, namespace=namespace, context=context, workspace=workspace, source=source)


def asking(yes: bool, as_json: bool = False) -> Callable[[str], bool]:
    """Return the question that a change asks; none may stand in a JSON document."""
    if yes:
        return lambda _: True
    if as_json or not os.isatty(0):
        return _refuse
    return typer.confirm


def _refuse(question: str) -> bool:
    from scripts.problem import Problem

    raise Problem("no confirmation is possible with --json or without a terminal; use --yes")
