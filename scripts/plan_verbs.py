"""The verbs that judge values and rows before a run is submitted: `plan` and `data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scripts import run_verbs
from scripts.terminal import terminal

Values = run_verbs.Values
Sets = run_verbs.Sets
Run = run_verbs.Submitted
Json = run_verbs.Json
Gpu = Annotated[str, typer.Option("--gpu", help="GPU model, such as a100-80g; default: gpuModel.")]
ModelConfig = Annotated[Path | None, typer.Option(help="The model's config.json.")]
DataFiles = Annotated[
    list[Path], typer.Argument(help="Files or folders of rows.", show_default=False)
]
HeldOut = Annotated[
    list[Path] | None, typer.Option("--held-out", help="Rows that are evaluated, not trained on.")
]
ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="The model's folder; its tokenizer counts tokens.")
]
PlannedData = Annotated[
    list[Path] | None, typer.Option("--data", help="Rows of recipe.dataset, to judge them too.")
]
Pairs = Annotated[
    int | None, typer.Option(min=1, max=10**12, help="Number of pairs in the dataset.")
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
    raise typer.Exit(planning.run(request, terminal()))


def data(
    paths: DataFiles,
    files: Values = None,
    sets: Sets = None,
    held_out: HeldOut = None,
    model: ModelFolder = None,
    as_json: Json = False,
) -> None:
    """Show the pairs of datasets as ms-swift reads them; exit 1 if a run would refuse them.

    Example: megatron-dpo data pairs.jsonl --model Qwen3-8B
    """
    from scripts.data import command as looking

    request = looking.Request(
        paths=paths,
        files=files or [],
        sets=sets or [],
        held_out=held_out or [],
        model=model,
        as_json=as_json,
    )
    raise typer.Exit(looking.run(request, terminal()))


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(plan)
    app.command()(data)
