"""`python -m tests.e2e.cluster`: start, stop and inspect the cluster of this checkout."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scripts.problem import Problem
from tests.e2e.cluster import cluster
from tests.e2e.cluster.cluster import State
from tests.e2e.cluster.layout import Layout

app = typer.Typer(
    help="A Kubernetes cluster on this machine, with JobSet and Kueue, for the end-to-end tests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Backend(StrEnum):
    AUTO = "auto"
    KIND = "kind"
    PROCESSES = "processes"


BackendOption = Annotated[
    Backend, typer.Option(help="auto: kind if a container engine answers, otherwise processes.")
]
Nodes = Annotated[int, typer.Option(min=1, max=99, help="Number of nodes that run pods.")]
Archive = Annotated[Path, typer.Argument(help="Image archive (docker save).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def up(backend: BackendOption = Backend.AUTO, nodes: Nodes = 3) -> None:
    """Start the cluster and wait until pods can run."""
    console = Console(soft_wrap=True, highlight=False)
    with cluster.locked(Layout()):
        if State.read(Layout()) is not None:
            found = cluster.status()
            if found.faults:
                raise Problem(
                    f"a cluster is up with faults ({'; '.join(found.faults)});"
                    " run `make cluster-down` first"
                )
            console.print(f"already up: {found.backend}, {len(found.nodes)} nodes")
            return
        began = time.monotonic()
        started = cluster.start(cluster.choose(backend), nodes)
        seconds = time.monotonic() - began
    console.print(f"up in {seconds:.0f} s: {', '.join(started.nodes)}")
    console.print(f"export KUBECONFIG={started.layout.kubeconfig}")


@app.command()
def down() -> None:
    """Stop the cluster and remove everything but its logs."""
    began = time.monotonic()
    with cluster.locked(Layout()):
        stopped = cluster.stop()
    text = f"down in {time.monotonic() - began:.0f} s" if stopped else "no cluster is up"
    Console(highlight=False).print(text)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the cluster; exit status 1 if none is up or it has faults."""
    found = cluster.status()
    if as_json:
        print(json.dumps(asdict(found), indent=1, default=str))
    else:
        console = Console(soft_wrap=True, highlight=False)
        console.print(f"backend     {found.backend}")
        console.print(f"kubeconfig  {found.kubeconfig}")
        for name, ready in found.nodes.items():
            console.print(f"{name:<12}{'ready' if ready else 'NOT READY'}")
    if found.faults:
        raise Problem("; ".join(found.faults))


@app.command()
def load_image(archive: Archive) -> None:
    cluster.connect().load_image(archive)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an expected failure prints one message and exits with status 1."""
    try:
        app(arguments, prog_name="python -m tests.e2e.cluster")
    except (Problem, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
