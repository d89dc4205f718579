"""The options of `megatron-dpo verify`, `sign` and `card`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scripts.run_verbs import Json
from scripts.terminal import terminal

Export = Annotated[Path, typer.Argument(help="Folder of an export.", show_default=False)]
PublicKey = Annotated[
    str,
    typer.Option("--key", help="Public key in PEM that must have signed it: a file or env:NAME."),
]
PrivateKey = Annotated[
    str, typer.Option("--key", help="Private key in PEM: a file or env:NAME, never the key itself.")
]
Passphrase = Annotated[
    str, typer.Option("--passphrase", help="Variable that holds the key's passphrase.")
]


def verify(export: Export, key: PublicKey = "", as_json: Json = False) -> None:
    """Compare an export with its statement, offline; exit 1 if a file or the signature differs.

    Example: megatron-dpo verify /mnt/workspace/runs/dpo-42/export --key signer.pub
    """
    from scripts.export import verify as verifying

    raise typer.Exit(verifying.run(export, key, terminal(), as_data=as_json))


def sign(
    export: Export, key: PrivateKey, passphrase: Passphrase = "", as_json: Json = False
) -> None:
    """Sign the statement of an export whose files are those it lists.

    Example: megatron-dpo sign /mnt/workspace/runs/dpo-42/export --key signer.pem
    """
    from scripts.export import sign as signing

    raise typer.Exit(signing.run(export, key, passphrase, terminal(), as_data=as_json))


def card(export: Export, as_json: Json = False) -> None:
    """Write the model card of an export, README.md, from the facts of its statement.

    Example: megatron-dpo card /mnt/workspace/runs/dpo-42/export
    """
    from scripts.export import card as writing

    raise typer.Exit(writing.run(export, terminal(), as_data=as_json))


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(verify)
    app.command()(sign)
    app.command()(card)
