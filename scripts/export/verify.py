"""`megatron-dpo verify`: compare an export with its statement, without a network."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any

from rich.console import Console

from launchers.stages import statement as written
from launchers.storage import manifest, marker
from launchers.storage.manifest import Entry
from launchers.system import lookup
from launchers.system.threads import each
from scripts.export import card, hub, signature
from scripts.export import statement as statements
from scripts.export.statement import Statement
from scripts.problem import Problem
from scripts.terminal import SCHEMA, print_json

OWN = (written.NAME, signature.NAME, marker.NAME, card.NAME)
"""Files that are no subjects of the statement; each is compared in its own way."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One difference between an export and what its statement or its signature says."""

    id: str
    file: str
    """Path in the export."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result for one export."""

    folder: Path
    statement: Statement | None
    findings: list[Finding]
    signed: str
    """`no`, `unchecked` without a key, or `yes`; `no` where the signature is wrong."""

    def document(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        return {
            "schema": SCHEMA,
            "export": str(self.folder),
            "files": len(self.statement.subjects) if self.statement else 0,
            "signed": self.signed,
            "findings": [asdict(finding) for finding in self.findings],
        }


def verify(folder: Path, key: str = "") -> Verdict:
    """Compare each file of an export with its statement, and the statement with its signature.

    With a public ``key`` (`signature.check`) a missing signature is a finding.

    Raises:
        LaunchError: IO, a file could not be read, which does not count as a difference.
    """
    with lookup.within(0.0):  # a person waits
        try:
            stated = statements.read(folder)
        except Problem as problem:
            found = Finding(id="statement-invalid", file=written.NAME, sentence=str(problem))
            return Verdict(folder=folder, statement=None, findings=[found], signed="no")
        signed, findings = _signature(folder, stated, key)
        findings += [*_files(folder, stated), *_marker(folder, stated)]
    return Verdict(folder=folder, statement=stated, findings=findings, signed=signed)


def _signature(folder: Path, stated: Statement, key: str) -> tuple[str, list[Finding]]:
    if not lookup.is_file(folder / signature.NAME):
        if not key:
            return "no", []
        missing = "there is none, and --key asks for one; sign the export, or omit --key"
        return "no", [_wrong("signature-missing", signature.NAME, missing)]
    if why := signature.check(folder, stated.text, key):
        return "no", [_wrong("signature-invalid", signature.NAME, why)]
    return "yes" if key else "unchecked", []


def _files(folder: Path, stated: Statement) -> Iterator[Finding]:
    """Yield what is missing, added or different."""
    # not ``manifest.files``, which leaves out what is named like an open file of NFS
    there = {path.relative_to(folder).as_posix(): path for path in _listed(folder)}
    wanted = sorted(stated.subjects)
    found = each(lambda name: _entry(there.get(name)), wanted)
    for name, entry in zip(wanted, found, strict=True):
        if entry is None:
            yield _wrong("file-missing", name, "the statement lists it, and it is not there")
        elif entry == NOT_A_FILE:
            yield _wrong("file-kind", name, "it is a link or a special file, not a file")
        elif entry.sha256 != stated.subjects[name]:
            yield _wrong("file-changed", name, "its content is not that of the statement")
    for name in sorted(there.keys() - stated.subjects.keys() - {*OWN, hub.ATTRIBUTES}):
        yield _wrong("file-added", name, "the statement does not list it")
    if card.NAME in there and card.NAME not in stated.subjects and not _is_card(folder, stated):
        yield _wrong("card-differs", card.NAME, "it is not the card of the statement")
    for name in sorted({*OWN, hub.ATTRIBUTES} & there.keys()):
        if _entry(there[name]) == NOT_A_FILE:
            yield _wrong("file-kind", name, "it is a link or a special file, not a file")


def _listed(folder: Path) -> Iterator[Path]:
    for name, is_dir in lookup.entries(folder).items():
        yield from _listed(folder / name) if is_dir else (folder / name,)


def _is_card(folder: Path, stated: Statement) -> bool:
    return lookup.data(folder / card.NAME) == card.render(stated).encode()


NOT_A_FILE = Entry(-1, "")


def _entry(path: Path | None) -> Entry | None:
    found = None if path is None else lookup.status(path, follow=False)
    if path is None or found is None:
        return None
    read = partial(manifest.entry, path)
    return lookup.certain(read, path) if S_ISREG(found.st_mode) else NOT_A_FILE


def _marker(folder: Path, stated: Statement) -> Iterator[Finding]:
    """Compare the launcher's marker, which a copy of an export may lack."""
    if not lookup.is_file(folder / marker.NAME):
        return
    found = marker.read(folder)
    own = {**stated.subjects, written.NAME: hashlib.sha256(stated.text).hexdigest()}
    if found is None or {name: e.sha256 for name, e in found.manifest.items()} != own:
        why = "the launcher's list of files is not that of the statement"
        yield _wrong("marker-differs", marker.NAME, why)


def _wrong(id: str, file: str, why: str) -> Finding:
    name = file if file.isprintable() else ascii(file)  # a line break could look like a verdict
    return Finding(id=id, file=file, sentence=f"{name}: {why}")


def run(folder: Path, key: str, console: Console, *, as_data: bool) -> int:
    """Print the verdict; return the exit status, 1 if anything differs."""
    verdict = verify(folder, key)
    if as_data:
        print_json(console, verdict.document())
    else:
        for line in _lines(verdict):
            console.print(line, highlight=False, soft_wrap=True)
    return 1 if verdict.findings else 0


def _lines(verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        yield f"{finding.sentence} [{finding.id}]"
    if verdict.findings:
        yield f"{verdict.folder} is not proved to be what was trained: do not serve it"
        return
    assert verdict.statement is not None
    count = len(verdict.statement.subjects)
    yield f"{verdict.folder}: all {count} files are those of its statement"
    yield {
        "yes": "The statement is signed by the key.",
        "unchecked": "The statement has a signature; --key PUBLIC_KEY checks whose it is.",
        "no": "The statement is not signed: who can write the folder could have replaced both.",
    }[verdict.signed]
