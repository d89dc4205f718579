"""`megatron-dpo cluster`: start, end and look at the cluster of this checkout."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scripts.problem import Problem
from tests.e2e.cluster import cluster, lock, status
from tests.e2e.cluster.cluster import State
from tests.e2e.cluster.layout import Layout

app = typer.Typer(
    help="A real Kubernetes cluster on this machine, with JobSet and Kueue.", no_args_is_help=True
)


class Backend(StrEnum):
    """What the cluster is made of."""

    AUTO = "auto"
    KIND = "kind"
    PROCESSES = "processes"


BackendOption = Annotated[
    Backend, typer.Option(help="kind where a container engine answers, else plain processes.")
]
Nodes = Annotated[int, typer.Option(min=1, max=99, help="Nodes that run pods.")]
Archive = Annotated[Path, typer.Argument(help="Image as a docker-archive (tar).")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command()
def up(backend: BackendOption = Backend.AUTO, nodes: Nodes = 3) -> None:
    """Start the cluster; returns when pods can run."""
    console = Console(soft_wrap=True, highlight=False)
    with lock.held(Layout()):
        if State.read(Layout()) is not None:
            seen = status.look()
            if seen.faults:
                text = f"a cluster is half up ({'; '.join(seen.faults)})"
                raise Problem(f"{text}; run `megatron-dpo cluster down` first")
            console.print(f"the cluster is up already: {seen.backend}, {len(seen.nodes)} nodes")
            return
        began = time.monotonic()
        started = cluster.start(cluster.choose(backend), nodes)
        seconds = time.monotonic() - began
    console.print(f"up in {seconds:.0f} s: {', '.join(started.nodes)}")
    console.print(f"export KUBECONFIG={started.kubeconfig}")


@app.command()
def down() -> None:
    """End the cluster, and leave nothing of it but its logs."""
    began = time.monotonic()
    with lock.held(Layout()):
        ended = cluster.stop()
    text = f"down in {time.monotonic() - began:.0f} s" if ended else "no cluster is up"
    Console(highlight=False).print(text)


@app.command("status")
def show_status(as_json: AsJson = False) -> None:
    """Show the cluster; exit status 1 if there is none, or it is broken."""
    seen = status.look()
    if as_json:
        print(json.dumps(asdict(seen), indent=1, default=str))
    else:
        console = Console(soft_wrap=True, highlight=False)
        console.print(f"backend     {seen.backend}")
        console.print(f"kubeconfig  {seen.kubeconfig}")
        for name, ready in seen.nodes.items():
            console.print(f"{name:<12}{'ready' if ready else 'NOT READY'}")
    if seen.faults:
        raise Problem("; ".join(seen.faults))


@app.command()
def load_image(archive: Archive) -> None:
    """Load an image on all nodes."""
    cluster.connect().load_image(archive)
