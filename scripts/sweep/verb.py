"""The options of `megatron-dpo sweep`."""

from typing import Annotated

import typer

from scripts.run_verbs import (
    Context,
    DryRun,
    Json,
    Namespace,
    Sets,
    Submitted,
    Values,
    Workspace,
    Yes,
    asking,
)
from scripts.terminal import terminal

Vary = Annotated[
    list[str], typer.Option("--vary", help="PATH=VALUE,VALUE,...: one run for each combination.")
]


def sweep(
    vary: Vary,
    files: Values = None,
    sets: Sets = None,
    run: Submitted = "dpo",
    namespace: Namespace = None,
    context: Context = None,
    workspace: Workspace = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Plan and submit one run for each value of a key, with the same workspace and its caches.

    Example: megatron-dpo sweep -f values/a100-2node.yaml --vary recipe.args.beta=0.05,0.1,0.2
    """
    from scripts.observe.command import Target
    from scripts.sweep import command

    request = command.Request(
        target=Target(run=run, namespace=namespace, context=context, workspace=workspace),
        vary=vary,
        files=files or [],
        sets=sets or [],
        dry_run=dry_run,
    )
    raise typer.Exit(command.run(request, terminal(), asking(yes, as_json), as_data=as_json))
