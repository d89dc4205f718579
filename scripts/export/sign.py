"""`megatron-dpo sign`: sign the statement of an export."""

from pathlib import Path

from rich.console import Console

from scripts.export import signature
from scripts.export.verify import verify
from scripts.problem import Problem
from scripts.terminal import SCHEMA, print_json


def run(folder: Path, key: str, passphrase: str, console: Console, *, as_data: bool) -> int:
    """Write the envelope next to the statement; return the exit status.

    Raises:
        Problem: the export is not that of its statement, or the key cannot sign.
    """
    verdict = verify(folder)
    wrong = [each for each in verdict.findings if each.id != "signature-invalid"]
    if verdict.statement is None or wrong:
        raise Problem(f"nothing is signed: {wrong[0].sentence}")
    signer = signature.sign(folder, verdict.statement.text, key, passphrase)
    path = folder / signature.NAME
    if as_data:
        print_json(console, {"schema": SCHEMA, "signature": str(path), "key": signer})
    else:
        console.print(f"{path}: signed by key {signer[:16]}", highlight=False, soft_wrap=True)
    return 0
