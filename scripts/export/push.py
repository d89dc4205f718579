"""`megatron-dpo push`: send a verified export to a hub or registry, and nothing that is there."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from launchers.stages import statement as written
from launchers.stages.statement import TRAINING
from launchers.state.json_text import part
from launchers.storage import manifest
from launchers.system.atomic_file import replace
from scripts.export import card, secret, signature
from scripts.export.hub import Repository
from scripts.export.registry import Tag
from scripts.export.remote import Content
from scripts.export.verify import verify
from scripts.observe.command import Exit
from scripts.plan.units import bytes_text
from scripts.problem import Problem, UnknownState, WrongUse
from scripts.report.reading import find
from scripts.terminal import SCHEMA, print_json, terminal

_HUB = re.compile(r"hf://([\w.-]+/[\w.-]+)", re.ASCII)
_REGISTRY = re.compile(r"oci://([\w.-]+(?::\d+)?/[a-z0-9._/-]+:[\w.-]+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of the command."""

    export: str
    """Name of a run of the workspace, or folder of a run or an export."""
    destination: str
    workspace: Path = Path()
    key: str = ""
    """Public key that must have signed the export, see `signature.check`."""
    token: str = ""
    """File or `env:NAME`; empty for the login of the client."""
    user: str = ""


def run(
    request: Request, console: Console, asking: Callable[[str], bool], *, as_data: bool = False
) -> int:
    """Verify, compare, show, ask and push; return the exit status.

    Raises:
        Problem: the export is not that of its statement, or the destination refuses it.
    """
    words, place = terminal(stderr=True) if as_data else console, request.destination
    remote = _remote(request)
    folder = Path(request.export)
    if not (folder / written.NAME).exists():
        folder = find(request.export, request.workspace).export
    files = _verified(folder, request.key)
    digest, sent = "", _different(remote, files, place)
    if sent:
        for name in sent:
            size = bytes_text((folder / name).stat().st_size)
            words.print(f"send  {name}  {size}", highlight=False, soft_wrap=True)
        words.print(f"{len(files) - len(sent)} of {len(files)} files are there", highlight=False)
        if not asking(f"Push to {place}?"):
            return int(Exit.FAILED)
        digest = remote.push(folder, [*files], sent)
        if left := _different(remote, files, place):
            said = f"{place} differs from the export after the push: {', '.join(left[:5])}"
            raise UnknownState(f"{said}; push again [push-incomplete]")
    said = f"{len(sent)} files sent; {digest}" if sent else "it has this export; nothing is sent"
    words.print(f"{place}: {said}", highlight=False, soft_wrap=True)
    if as_data:
        print_json(
            console, {"schema": SCHEMA, "destination": place, "sent": sent, "digest": digest}
        )
    return int(Exit.OK)


def _remote(request: Request) -> Repository | Tag:
    token = secret.text(request.token, "--token") if request.token else ""
    if found := _HUB.fullmatch(request.destination):
        return Repository(found[1], token)
    if found := _REGISTRY.fullmatch(request.destination):
        return Tag(found[1], token, request.user)
    forms = "write hf://org/name or oci://host/name:tag [push-destination]"
    raise WrongUse(
        f"{request.destination!r} is neither a hub's repository nor a registry's tag; {forms}"
    )


def _verified(folder: Path, key: str) -> dict[str, Content]:
    """Return the files to push, with the card, which is written if there is none.

    Those of the statement have its digests: `verify` has just read them.
    """
    verdict = verify(folder, key)
    if verdict.statement is None or verdict.findings:
        first = verdict.findings[0]
        raise Problem(f"nothing is pushed: {first.sentence} [{first.id}]")
    stated = verdict.statement
    if problems := part(part(stated.predicate, TRAINING), "test").get("problems"):
        why = f"the test of the export failed: {'; '.join(map(str, problems))} [push-test-failed]"
        raise Problem(f"nothing is pushed: {why}")
    if card.NAME not in stated.subjects:
        replace(folder / card.NAME, card.render(stated))
    signed = [signature.NAME] if (folder / signature.NAME).exists() else []
    own = {
        name: manifest.entry(folder / name).sha256 for name in [written.NAME, *signed, card.NAME]
    }
    digests = {**own, **stated.subjects}
    return {name: Content(folder / name, sha256) for name, sha256 in digests.items()}


def _different(remote: Repository | Tag, files: Mapping[str, Content], place: str) -> list[str]:
    """Return the files that are not there, or differ there."""
    there = remote.files()
    if foreign := sorted(there.keys() - files.keys()):
        raise Problem(
            f"{place} holds files that are not of this export: {', '.join(foreign[:5])}; remove "
            "them there, or choose another name [push-foreign-files]"
        )
    return [n for n, held in files.items() if n not in there or not held.has(there[n])]
