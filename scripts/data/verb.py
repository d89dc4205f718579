"""The options of `megatron-dpo data`."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.run_verbs import Json, Sets, Values
from scripts.terminal import terminal

DataFiles = Annotated[
    list[Path], typer.Argument(help="Files or folders of rows.", show_default=False)
]
HeldOut = Annotated[
    list[Path] | None, typer.Option("--held-out", help="Rows that are evaluated, not trained on.")
]
ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="The model's folder; its tokenizer counts tokens.")
]
Page = Annotated[
    Path | None, typer.Option("--page", help="Write a page of the same, as one HTML file.")
]


def data(
    paths: DataFiles,
    files: Values = None,
    sets: Sets = None,
    held_out: HeldOut = None,
    model: ModelFolder = None,
    as_json: Json = False,
    page: Page = None,
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
        page=page,
    )
    raise typer.Exit(looking.run(request, terminal()))
