"""The `megatron-dpo` command: one function per verb; its work is in the folder of its name.

A verb imports its package when it runs: `status` and the completion of names would otherwise wait
0.2 s for the planner and the report.
"""

import atexit
import errno
import gc
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from launchers.exits import Exit, LaunchError
from scripts import run_verbs
from scripts.completion import complete_run_or_folder
from scripts.data import verb as data_verb
from scripts.export import verb as export_verb
from scripts.observe.ways import Source
from scripts.problem import Problem, UnknownState
from scripts.report import Format
from scripts.run_verbs import (
    Context,
    Json,
    Namespace,
    Pairs,
    RunsWorkspace,
    Sets,
    Values,
    target_of,
)
from scripts.run_verbs import Submitted as Run
from scripts.sweep import verb as sweep_verb
from scripts.terminal import SCHEMA, terminal

app = typer.Typer(
    help="Plan, check, submit and watch DPO runs.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
TOO_LONG = "{} ...: a path of at most 4,096 bytes is allowed, each of its names at most 255"
LOCAL_WORKSPACE = Path(".demo/local")
GARBAGE_OBJECTS = 100_000
"""New objects after which Python looks for garbage. Its default, 700, doubles the time to decode a
queue of 1,000 Workloads."""

Rendered = Annotated[Path | None, typer.Option(help="Rendered manifest, instead of values files.")]
Workspace = Annotated[Path, typer.Option(help="Folder used as the shared volume.")]
Python = Annotated[
    str | None, typer.Option(help="Python of the training environment; default: .tools/train.")
]
GpuResource = Annotated[str, typer.Option(help="Resource that counts as a GPU.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print all output of the pods.")]
Gpu = Annotated[str, typer.Option("--gpu", help="GPU model, such as a100-80g; default: gpuModel.")]
ModelConfig = Annotated[Path | None, typer.Option(help="The model's config.json.")]
PlannedData = Annotated[
    list[Path] | None, typer.Option("--data", help="Rows of recipe.dataset, to judge them too.")
]
Tokens = Annotated[
    float | None,
    typer.Option(min=1, max=10**9, help="Mean tokens of a pair, both answers with the prompt."),
]
Search = Annotated[bool, typer.Option("--search", help="Rank all layouts for the GPUs.")]
Nodes = Annotated[int | None, typer.Option(min=1, help="Nodes to search layouts for.")]
GpusPerNode = Annotated[
    int | None, typer.Option(min=1, help="GPUs per node to search layouts for.")
]
Swift = Annotated[
    str | None,
    typer.Option(help="Release of ms-swift, if not the default; it is in .tools/train-RELEASE."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the rehearsal's pods in the cluster.")]
Here = Annotated[bool, typer.Option("--local", help="On this machine, each pod as a process.")]
Runs = Annotated[
    list[str],
    typer.Argument(
        help="Runs of the workspace, or folders of runs.",
        show_default=False,
        autocompletion=complete_run_or_folder,
    ),
]
BundledRun = Annotated[
    str,
    typer.Argument(
        help="Run of the workspace, or the folder of a run.",
        show_default=False,
        autocompletion=complete_run_or_folder,
    ),
]
BundleFile = Annotated[
    Path | None, typer.Option("--file", help="Write here; default: bundle-RUN.tar.gz.")
]
BundledCluster = Annotated[
    bool, typer.Option("--cluster/--no-cluster", help="Also read the run's objects.")
]
ReportFormat = Annotated[Format, typer.Option("--output", "-o", help="Kind of document.")]
ReportJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
ReportFile = Annotated[
    Path | None,
    typer.Option("--file", help="Write here; default: report-RUN.html, others to the terminal."),
]
DemoFolder = Annotated[
    Path | None, typer.Option(help="Folder for all files of the demo; default: .demo.")
]


@app.command()
def local(
    files: Values = None,
    sets: Sets = None,
    run: Run = "local",
    manifest: Rendered = None,
    workspace: Workspace = LOCAL_WORKSPACE,
    python: Python = None,
    gpu_resource: GpuResource = "nvidia.com/gpu",
    verbose: Verbose = False,
) -> None:
    """Run a rendered JobSet on this machine, each pod as a process.

    Example: megatron-dpo local -f values/demo-cpu.yaml --run try-1
    """
    from scripts.local.command import Request, run_locally

    request = Request(
        run=run,
        files=files or [],
        sets=sets or [],
        manifest=manifest,
        workspace=workspace,
        python=python,
        verbose=verbose,
        gpu_resource=gpu_resource,
    )
    raise typer.Exit(run_locally(request, terminal()))


@app.command()
def doctor(
    files: Values = None,
    sets: Sets = None,
    run: Run = "dpo",
    namespace: Namespace = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Check whether a cluster would run a release, before it is submitted.

    Example: megatron-dpo doctor -f values/a100-2node.yaml --run dpo-42
    """
    from scripts.doctor import command as doctor_module

    request = doctor_module.Request(
        run=run, files=files or [], sets=sets or [], namespace=namespace, context=context
    )
    raise typer.Exit(doctor_module.run(request, terminal(), as_data=as_json))


@app.command()
def rehearse(
    files: Values = None,
    sets: Sets = None,
    run: Run = "dpo",
    namespace: Namespace = None,
    context: Context = None,
    keep: Keep = False,
    on_this_machine: Here = False,
    workspace: Workspace = LOCAL_WORKSPACE,
    python: Python = None,
    verbose: Verbose = False,
) -> None:
    """Rehearse a release: a few steps, a save, a kill, a resume, an export, and a report.

    Example: megatron-dpo rehearse -f values/a100-2node.yaml --run dpo-42
    """
    from scripts.rehearse import command as rehearse_module

    request = rehearse_module.Request(
        run=run, files=files or [], sets=sets or [], namespace=namespace, context=context, keep=keep
    )
    if on_this_machine:
        code = rehearse_module.run_here(
            request, terminal(), workspace=workspace, python=python, verbose=verbose
        )
    else:
        code = rehearse_module.run(request, terminal())
    raise typer.Exit(code)


@app.command()
def plan(
    files: Values = None,
    sets: Sets = None,
    run: Run = "run",
    gpu: Gpu = "",
    model_config: ModelConfig = None,
    pairs: Pairs = None,
    tokens: Tokens = None,
    as_json: Json = False,
    search: Search = False,
    nodes: Nodes = None,
    gpus_per_node: GpusPerNode = None,
    data: PlannedData = None,
    fix: run_verbs.Fix = False,
    yes: run_verbs.Yes = False,
) -> None:
    """Predict memory, time and workspace of a release; exit 1 if it is refused.

    Example: megatron-dpo plan -f values/a100-2node.yaml --search
    """
    from scripts.plan import command as planning

    request = planning.Request(
        run=run,
        files=files or [],
        sets=sets or [],
        gpu=gpu,
        model_config=model_config,
        pairs=pairs,
        tokens=tokens,
        as_json=as_json,
        search=search,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        data=data or [],
    )
    raise typer.Exit(planning.run(request, terminal(), fix=fix, yes=yes))


for _verb in (
    data_verb.data, sweep_verb.sweep, export_verb.verify, export_verb.sign, export_verb.card,
    export_verb.push,
):  # fmt: skip
    app.command()(_verb)


@app.command()
def report(
    runs: Runs,
    namespace: Namespace = None,
    context: Context = None,
    workspace: RunsWorkspace = Path(),
    source: run_verbs.Sources = Source.AUTO,
    output: ReportFormat = "html",
    file: ReportFile = None,
    as_json: ReportJson = False,
) -> None:
    """Write the report of runs: one page that needs no network, Markdown or JSON.

    Example: megatron-dpo report dpo-41 dpo-42 -o html
    """
    from scripts.report import command as reporting

    request = reporting.Request(
        targets=[target_of(run, namespace, context, workspace, source) for run in runs],
        format="json" if as_json else output,
        file=file,
    )
    raise typer.Exit(reporting.run(request, terminal()))


@app.command()
def bundle(
    run: BundledRun,
    workspace: RunsWorkspace = Path(),
    source: run_verbs.Sources = Source.AUTO,
    files: Values = None,
    file: BundleFile = None,
    cluster: BundledCluster = True,
    namespace: Namespace = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Pack a run for a bug report: records, logs and the objects of the cluster.

    It holds no secrets, rows of data or weights.

    Example: megatron-dpo bundle dpo-42 --workspace /mnt/workspace -f values/a100-2node.yaml
    """
    from scripts.bundle import command as bundling
    from scripts.bundle.cluster import objects

    way = source if cluster else Source.MOUNT
    request = bundling.Request(
        target=target_of(run, namespace, context, workspace, way),
        values=files or [],
        file=file,
        cluster=objects(Path(run).name, namespace, context) if cluster else {},
    )
    raise typer.Exit(bundling.run(request, terminal(), as_data=as_json))


@app.command()
def demo(folder: DemoFolder = None, swift: Swift = None) -> None:
    """Run DPO of a tiny model on this machine: two nodes, real preference pairs.

    Example: megatron-dpo demo
    """
    from launchers.rules.table import SWIFT
    from scripts.demo import command as demo_module

    raise typer.Exit(demo_module.run(folder or demo_module.FOLDER, terminal(), swift or SWIFT))


@app.command()
def demo_clean(folder: DemoFolder = None) -> None:
    """Remove all files of the demo.

    Example: megatron-dpo demo-clean
    """
    from scripts.demo import command as demo_module

    demo_module.clean(folder or demo_module.FOLDER, terminal())


run_verbs.register(app)


def _is_too_long(error: BaseException | None) -> bool:
    """Return whether an error comes from a path with a name longer than file systems allow."""
    is_own = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    return is_own or (error is not None and _is_too_long(error.__context__))


def _code(problem: Problem | OSError | LaunchError) -> int:
    if isinstance(problem, LaunchError):
        return UnknownState.code if problem.code is Exit.IO else 1
    return problem.code if isinstance(problem, Problem) else 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected failure prints one message and exits with its code, mostly 1.

    With ``--json`` an error is a document, too. A path that no file can have exits
    with 2. Errors of the operating system (a full disk, a file in place of a folder) are expected
    too. A terminal whose locale is not UTF-8 shows question marks for bars and boxes. A reader that
    closes the pipe, such as `head`, has what it wants: nothing is said.
    """
    gc.set_threshold(GARBAGE_OBJECTS)
    atexit.register(gc.freeze)  # otherwise the interpreter looks for garbage once more at its end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(arguments)
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (Problem, OSError, LaunchError) as problem:
        console = terminal(stderr=True, soft_wrap=True)
        said, code = str(problem), _code(problem)
        if _is_too_long(problem):
            said, code = TOO_LONG.format(said[:100]), 2
        console.print(f"error: {said}", highlight=False)
        if getattr(problem, "errno", None) not in (errno.ENOSPC, errno.EIO):
            _print_error(arguments, code, said)  # stdout is not what failed
        raise SystemExit(code) from None
    except SystemExit as ended:
        if ended.code == 2:  # typer has printed why
            _print_error(arguments, 2, "the options are wrong; stderr has the message")
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _print_error(arguments: Sequence[str] | None, code: int, why: str) -> None:
    """Print the document of a verb that ends before it has one of its own, with ``--json``."""
    if "--json" in (sys.argv[1:] if arguments is None else arguments):
        state = "unknown" if code == UnknownState.code else "error"
        print(json.dumps({"schema": SCHEMA, "state": state, "why": why}))


if __name__ == "__main__":
    main()
