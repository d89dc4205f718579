"""The options of `megatron-dpo verify`, `sign`, `card` and `push`."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.completion import complete_run_or_folder
from scripts.run_verbs import Json, RunsWorkspace, Yes, asking
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

Pushed = Annotated[
    str,
    typer.Argument(
        help="Run of the workspace, or folder of an export.",
        show_default=False,
        autocompletion=complete_run_or_folder,
    ),
]
Destination = Annotated[
    str, typer.Argument(help="hf://org/name or oci://host/name:tag.", show_default=False)
]
Token = Annotated[
    str, typer.Option("--token", help="File or env:NAME; default: the login of the client.")
]
User = Annotated[
    str, typer.Option("--username", help="User of the token, where a registry asks for one.")
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


def push(
    run: Pushed,
    destination: Destination,
    workspace: RunsWorkspace = Path(),
    key: PublicKey = "",
    token: Token = "",
    username: User = "",
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Push a verified export, its card, statement and signature to a hub or registry.

    Example: megatron-dpo push dpo-42 hf://org/name --workspace /mnt/workspace --token env:HF_TOKEN
    """
    from scripts.export import push as pushing

    request = pushing.Request(
        export=run,
        destination=destination,
        workspace=workspace,
        key=key,
        token=token,
        user=username,
    )
    raise typer.Exit(pushing.run(request, terminal(), asking(yes, as_json), as_data=as_json))
