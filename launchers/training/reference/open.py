"""Opens the store of a run, or says why the run can't have one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from launchers import PACKAGE
from launchers.training.reference import store as reference_store
from launchers.training.reference.facts import differences, facts_of, store_name
from launchers.training.reference.policy import ReferenceConfigError, policy_is_reference
from launchers.training.reference.store import Pairs

RECORD = "reference.json"
"""In the run's folder: which store the run uses, and what taking it took."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A store as a run found it, or as its pass left it."""

    folder: Path
    facts: Mapping[str, str]
    pairs: Pairs
    complete: bool
    source: Literal["pass", "store"]
    """Whether this run took the log-probabilities or found them."""
    cost: Mapping[str, Any] = field(default_factory=dict)

    def after(self, seconds: float, tokens: int, ranks: int, *, left: int = 0) -> Opened:
        """Return the store after this run's pass.

        Args:
            seconds: of wall time, with the data's.
            tokens: chosen and rejected, each once, that this pass went over.
            ranks: GPUs.
            left: pairs that killed passes had left: what those took is not counted.
        """
        speed = round(tokens / seconds / ranks, 1)
        cost = {"seconds": round(seconds, 3), "pairs": len(self.pairs), "tokens": tokens}
        cost |= {"gpus": ranks, "tokens_per_second_per_gpu": speed}
        cost |= {"pairs_of_killed_passes": left} if left else {}
        return replace(self, complete=True, source="pass", cost=cost)


def open_store(home: Path, args: object, iteration: int, version: str) -> Opened:
    """Find the store of a run, whole, begun or missing.

    Args:
        home: the run's folder on the workspace.
        args: ms-swift's parsed arguments.
        iteration: optimizer steps done, as the loaded checkpoint says.
        version: of ms-swift.

    Raises:
        ReferenceConfigError: the policy is no longer the reference, and the store does not help.
        ReferenceDataError: what earlier passes left contradicts itself.
    """
    facts = facts_of(args, home, PACKAGE, version)
    folder = stores(home) / store_name(facts)
    whole = reference_store.read(folder)
    if not policy_is_reference(args, iteration):
        changed = differences(dict(recorded(home).get("facts") or facts), facts)
        if changed or whole is None:
            raise ReferenceConfigError(_too_late(home, folder, iteration, changed))
    if whole is not None:
        found, cost = whole
        return Opened(
            folder=folder, facts=facts, pairs=found, complete=True, source="store", cost=cost
        )
    reference_store.begin(folder, facts)
    left = reference_store.read_parts(folder)
    return Opened(folder=folder, facts=facts, pairs=left, complete=False, source="pass")


def _too_late(home: Path, folder: Path, iteration: int, changed: str) -> str:
    """Say why the log-probabilities can't be had any more, and what to do."""
    state = f"has done {iteration} steps" if iteration else "does not start from ref_model"
    lack = f"the run began with others: {changed}" if changed else f"{folder} is not whole"
    undo = "undo that change, or " if changed else ""
    return (
        f"recipe.reference: precomputed, but the policy {state}, so that it can't stand for the "
        f"reference, and {lack}; {undo}write recipe.reference: online, "
        f"or remove {home / 'checkpoints'} to begin anew"
    )


def stores(home: Path) -> Path:
    """Return the folder of all stores: beside ``runs`` on the workspace, else in ``home``.

    >>> str(stores(Path("/w/runs/one"))), str(stores(Path("/elsewhere")))
    ('/w/reference', '/elsewhere/reference')
    """
    root = home.parent.parent if home.parent.name == "runs" else home
    return root / "reference"


def recorded(home: Path) -> dict[str, Any]:
    """Return what the run's earlier attempts noted; empty where there is nothing to read."""
    return reference_store.document_of(home / RECORD)


def record(home: Path, opened: Opened) -> None:
    """Note which store the run uses; an attempt that reads what its run took leaves that note.

    ``from`` is ``pass`` where the run paid ``seconds`` and ``tokens`` itself.
    """
    store = opened.folder.name
    if recorded(home).get("store") == store and opened.source == "store":
        return
    note = {"from": opened.source, "store": store, **opened.cost, "facts": dict(opened.facts)}
    home.mkdir(parents=True, exist_ok=True)
    reference_store.write(home / RECORD, (json.dumps(note, indent=1) + "\n").encode())
