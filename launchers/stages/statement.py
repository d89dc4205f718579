"""The statement of an export: digests of its files, and what they were made from.

An in-toto statement (https://in-toto.io/Statement/v1) with SLSA's provenance as its predicate
(https://slsa.dev/spec/v1.0/provenance); ``megatron-dpo verify`` compares a folder with it.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launchers.config.recipe import Recipe
from launchers.config.workspace import Workspace
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.storage import checkpoint, marker
from launchers.storage.checkpoint import Checkpoint
from launchers.storage.manifest import Manifest
from launchers.system import lookup
from launchers.system.atomic_file import read_object

NAME = "statement.json"
"""The statement's file in the export; it does not list itself."""
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:megatron-dpo:run:1"
TRAINING = "megatron_dpo_training"
"""Extension of SLSA's predicate: steps, losses, evaluations and the test of the export."""
_LICENCE = re.compile(r"---\n(?:(?!---).*\n)*?license: *([\w.+-]+) *\n")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What an export was made from, as the launcher knows it."""

    outputs: Sequence[Sequence[str]] = ()
    """Path and digest of the outputs of the stages before training."""
    model: Path | None = None
    image: str = ""
    """As the values name it; empty outside of Kubernetes."""
    launcher: str = ""
    """Digest of the launcher's sources."""


def text(
    work: Workspace,
    recipe: Recipe,
    last: Checkpoint,
    manifest: Manifest,
    origin: Origin,
    tested: Mapping[str, object],
) -> str:
    """Return the statement of a checkpoint's export as JSON."""
    subject = [{"name": n, "digest": {"sha256": e.sha256}} for n, e in sorted(manifest.items())]
    plan, software = read_object(work.plan), read_object(last.path / checkpoint.FEATURES)
    facts = {name: plan.get(name) for name in ("gang", "layout", "model")}
    facts |= {name: software.get(name) for name in ("versions", "patches")}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD,
            "externalParameters": {"recipe": {**asdict(recipe), "digest": recipe.digest}},
            "internalParameters": facts,
            "resolvedDependencies": [*_outputs(work, origin), *_image(origin.image)],
        },
        "runDetails": {
            "builder": {"id": BUILD, "version": {"launcher": origin.launcher}},
            "metadata": {"invocationId": work.run},
        },
        TRAINING: {**_training(work, last.step), "test": dict(tested)},
    }
    whole = {"_type": TYPE, "subject": subject, "predicateType": PREDICATE, "predicate": predicate}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _outputs(work: Workspace, origin: Origin) -> list[dict[str, Any]]:
    """Return descriptors of code, model and data; the digest is that of the marker."""
    found = []
    for place, digest in origin.outputs:
        path, made = Path(place), marker.read(Path(place))
        notes: dict[str, Any] = {**made.inputs, **made.made} if made else {}
        if path == origin.model:
            notes["license"] = licence_of(path)
        name = path.relative_to(work.root).as_posix() if path.is_relative_to(work.root) else place
        held = {"digest": {"sha256": digest}} if digest else {}
        found.append({"name": name, "uri": f"file:{name}", **held, "annotations": notes})
    return found


def _image(image: str) -> list[dict[str, Any]]:
    digest = image.partition("@sha256:")[2]
    held = {"digest": {"sha256": digest}} if digest else {}
    return [{"name": "image", "uri": f"docker://{image}", **held}] if image else []


def licence_of(model: Path) -> str:
    """Return the licence that the model card of a folder names; empty if it names none."""
    with contextlib.suppress(UnicodeDecodeError):
        found = _LICENCE.match(lookup.text(model / "README.md") or "")
        return found[1] if found else ""
    return ""


def _training(work: Workspace, step: int) -> dict[str, Any]:
    """Return the steps, the losses and the evaluations up to a step."""
    rows = [row for row in reader.read(work.metrics, Row) if row.step <= step]
    held = [e.summary() for e in reader.read(work.metrics, Evaluation) if e.step <= step]
    losses = [row.values["loss"] for row in rows if row.values.get("loss") is not None]
    found = {"step": step, "total": rows[-1].total if rows else None}
    return {**found, "losses": _ends(losses), "evaluations": _ends(held)}


def _ends(values: list[Any]) -> list[Any]:
    """Return the first and the last value; one that is alone once."""
    return values[:1] + values[1:][-1:]
