"""`megatron-dpo bundle`: write the archive."""

import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from scripts import redact
from scripts.bundle import logs, objects, selection
from scripts.bundle.selection import Entry
from scripts.observe.command import Target
from scripts.plan.units import bytes_text
from scripts.problem import Problem
from scripts.redact import Redactor
from scripts.report import output_file
from scripts.report.locate import located
from scripts.terminal import SCHEMA, print_json

CONTENTS = "CONTENTS.md"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of the command."""

    target: Target
    """Its run is a name on the workspace, or the path of a run's folder."""
    values: Sequence[Path] = ()
    """Values files of the release."""
    file: Path | None = None
    """The archive; by default ``bundle-<run>.tar.gz`` here."""
    cluster: Mapping[str, Any] = field(default_factory=dict)
    """State of the run that `cluster.py` read; empty without a cluster."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The content of an archive."""

    files: Mapping[str, bytes]
    shortened: frozenset[str]
    left_out: Sequence[Entry]


def run(request: Request, console: Console, *, as_data: bool = False) -> int:
    """Write the archive, print its contents or a JSON document; return the exit status."""
    with located(request.target, selection.FILES, cut=logs.TAIL) as found:
        work = found.work
        bundle = build(work.home, _documents(request), os.environ)
    file = request.file or Path(f"bundle-{work.run}.tar.gz")
    output_file.write(file, archive(bundle, f"bundle-{work.run}"))
    if as_data:
        print_json(console, document(bundle, work.run, file))
        return 0
    console.print(contents(bundle), highlight=False)
    console.print(f"{file.resolve()} ({bytes_text(file.stat().st_size)})", soft_wrap=True)
    console.print("Read it before you send it: no rule finds every secret.")
    return 0


def document(bundle: Bundle, run: str, file: Path) -> Mapping[str, Any]:
    """Return what a written bundle holds as JSON data; sizes are bytes."""
    return {
        "schema": SCHEMA,
        "run": run,
        "file": str(file.resolve()),
        "bytes": file.stat().st_size,
        "files": [
            {"name": name, "bytes": len(content), "shortened": name in bundle.shortened}
            for name, content in bundle.files.items()
        ],
        "left_out": [
            {"name": each.name, "bytes": each.size, "reason": each.reason}
            for each in bundle.left_out
        ],
    }


def build(home: Path, documents: Mapping[str, Any], env: Mapping[str, str]) -> Bundle:
    """Return what a bundle holds.

    ``documents`` by file name, a text is a log; secrets of ``env`` are removed wherever they stand.

    Raises:
        Problem: a known secret is still in a file, so that nothing is written.
    """
    own = redact.from_environment(env)
    known = {value for each in documents.values() for value in objects.secrets(each)}
    redactor = Redactor((*own.known, *known))
    files: dict[str, bytes] = {
        name: _log(each, redactor).encode(errors="replace")
        if isinstance(each, str)
        else _json(redactor.data(objects.clean(each)))
        for name, each in documents.items()
    }
    shortened, left_out = set(), []
    for entry in selection.entries(home):
        if entry.treatment is None:
            left_out.append(entry)
            continue
        try:
            text, is_cut = _read(entry, redactor)
        except OSError as error:
            reason = f"not readable ({error.strerror})"
            left_out.append(replace(entry, treatment=None, reason=reason))
            continue
        files[entry.name] = text.encode(errors="replace")
        if is_cut:
            shortened.add(entry.name)
    bundle = Bundle(
        files=dict(sorted(files.items())), shortened=frozenset(shortened), left_out=left_out
    )
    _verify(bundle, redactor)
    return bundle


def _read(entry: Entry, redactor: Redactor) -> tuple[str, bool]:
    if entry.treatment == "data":
        text = entry.path.read_text(encoding="utf-8", errors="replace")
        try:
            return _json(redactor.data(json.loads(text))).decode(), False
        except (ValueError, RecursionError):  # torn: shown as it is
            return redactor.text(text), False
    text, is_cut = logs.excerpt(entry.path)
    return redactor.text(text) if entry.treatment == "lines" else _log(text, redactor), is_cut


def _log(text: str, redactor: Redactor) -> str:
    lines = logs.without_rows(redactor.text(text).splitlines())
    return "".join(f"{line}\n" for line in lines)


def _verify(bundle: Bundle, redactor: Redactor) -> None:
    """Raise an error if a known secret is left in any file."""
    for name, content in bundle.files.items():
        text = content.decode()
        if any(len(value) >= redact.SHORTEST and value in text for value in redactor.known):
            raise Problem(f"{name} still holds a known secret; nothing is written, report this")


def contents(bundle: Bundle) -> str:
    """Return the list of what a bundle holds and what it left out."""
    lines = ["# Contents", ""]
    for name, content in bundle.files.items():
        note = ", middle left out" if name in bundle.shortened else ""
        lines.append(f"- {name} ({bytes_text(len(content))}{note})")
    lines += ["", "# Left out", ""]
    reasons: dict[str, list[Entry]] = {}
    for entry in bundle.left_out:
        reasons.setdefault(entry.reason, []).append(entry)
    for reason, found in sorted(reasons.items()):
        size = bytes_text(sum(entry.size for entry in found))
        shown = ", ".join(entry.name for entry in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        lines.append(f"- {reason} ({len(found)} files, {size}): {shown}{more}")
    lines += [
        "- values of environment variables that do not explain a run, contents of Secrets",
        f"- passwords and tokens, replaced by {redact.REDACTED}",
        f"- rows of the data in logs, replaced by {logs.ROW}",
    ]
    return "\n".join(lines) + "\n"


def archive(bundle: Bundle, folder: str) -> bytes:
    """Return the archive: one folder, files readable by their owner only, no user names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {CONTENTS: contents(bundle).encode(), **bundle.files}.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mode = len(content), 0o600
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _documents(request: Request) -> dict[str, Any]:
    found = dict(request.cluster)
    for number, path in enumerate(request.values):
        found[f"values/{number}-{path.stem}.json"] = _values(path)
    return found


def _values(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise Problem(f"{path} is not YAML: {type(error).__name__}") from None


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, default=str) + "\n").encode()
