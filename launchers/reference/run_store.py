"""Find the store of a run, or refuse a run that can no longer have one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.reference import store as reference_store
from launchers.reference.fingerprint import ADDED, CODE, Machine, differences, facts_of, store_name
from launchers.reference.policy import policy_is_reference
from launchers.reference.store import Pairs
from launchers.system.atomic_file import known_object, read_object
from launchers.upstream.record import ALLOW_VARIABLE, PACKAGES

RECORD = "reference.json"
"""File in the run's folder that names the store in use and its cost."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A store as a run found it, or after the run's pass."""

    folder: Path
    facts: Mapping[str, str]
    pairs: Pairs
    complete: bool
    source: Literal["pass", "store"]
    """``pass`` if this run computed the log-probabilities, ``store`` if it found them."""
    cost: Mapping[str, Any] = field(default_factory=dict)

    def after(self, seconds: float, tokens: int, ranks: int, *, left: int = 0) -> Opened:
        """Return the store after this run's pass.

        ``tokens`` are counted once; the cost of ``left`` pairs, of interrupted passes, is not.
        """
        speed = round(tokens / seconds / ranks, 1)
        cost = {"seconds": round(seconds, 3), "pairs": len(self.pairs), "tokens": tokens}
        cost |= {"gpus": ranks, "tokens_per_second_per_gpu": speed}
        cost |= {"pairs_of_killed_passes": left} if left else {}
        return replace(self, complete=True, source="pass", cost=cost)


def open_store(home: Path, args: object, iteration: int, machine: Machine) -> Opened:
    """Return the store of a run; begin one if there is none.

    A resumed run keeps the store that it began with, also where the facts that it recorded lack
    some of today's, where other code computes them, or where the recipe allows other versions
    (``recipe.allowVersionChange``); all give a warning.
    ``iteration``: optimizer steps done, as the loaded checkpoint says.

    Raises:
        LaunchError: CONFIG when the policy is no longer the reference and the store is not complete
            or of other facts; DATA when results of earlier passes contradict each other; IO if the
            storage does not answer, or the run's note or store is torn.
    """
    facts = facts_of(args, home, machine)
    folder = stores(home) / store_name(facts)
    is_resumed = not policy_is_reference(args, iteration)
    note = recorded(home) if is_resumed else {}
    begun: dict[str, str] = note.get("facts") or facts
    changed = differences(begun, facts)
    tolerated = _tolerated(begun, facts, machine.env)
    if changed and "store" in note and not differences(*tolerated):
        logs.warning("reference kept", store=note["store"], changed=changed)
        folder, facts, changed = stores(home) / str(note["store"]), begun, ""
    whole = reference_store.read(folder)
    if is_resumed and (changed or whole is None):
        known_object(home / RECORD, f"restore it, or {reference_store.RESTORE}")
        reference_store.refuse_torn(folder)
        raise _too_late(home, folder, iteration, differences(*tolerated) or changed)
    if whole is not None:
        found, cost = whole
        return Opened(
            folder=folder, facts=facts, pairs=found, complete=True, source="store", cost=cost
        )
    reference_store.begin(folder, facts)
    left = reference_store.read_parts(folder)
    return Opened(folder=folder, facts=facts, pairs=left, complete=False, source="pass")


def _tolerated(
    begun: Mapping[str, str], facts: Mapping[str, str], env: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return both without the facts that may differ after a resume."""
    open_ones = {*CODE, *(name for name in ADDED if name not in begun)}
    if env.get(ALLOW_VARIABLE) == "1":
        open_ones |= set(PACKAGES)
    before, now = ({k: v for k, v in of.items() if k not in open_ones} for of in (begun, facts))
    return before, now


def _too_late(home: Path, folder: Path, iteration: int, changed: str) -> LaunchError:
    """Explain why the log-probabilities can no longer be computed."""
    state = f"has done {iteration} steps" if iteration else "does not start from ref_model"
    lack = f"the run began with other inputs: {changed}" if changed else f"{folder} is incomplete"
    undo = "revert that change, or " if changed else ""
    return LaunchError(
        Exit.CONFIG,
        f"recipe.reference: precomputed, but the policy {state}, so it cannot serve as the "
        f"reference, and {lack}",
        f"{undo}set recipe.reference: online, or remove {home / 'checkpoints'} to start again",
        id="reference-too-late",
    )


def stores(home: Path) -> Path:
    """Return the folder of all stores: next to ``runs`` on the workspace, otherwise in ``home``.

    >>> str(stores(Path("/w/runs/one"))), str(stores(Path("/elsewhere")))
    ('/w/reference', '/elsewhere/reference')
    """
    root = home.parent.parent if home.parent.name == "runs" else home
    return root / "reference"


def recorded(home: Path) -> dict[str, Any]:
    """Return the note of the run's earlier attempts; empty if there is none to read."""
    return read_object(home / RECORD)


def record(home: Path, opened: Opened) -> None:
    """Note the store that the run uses; keep the note if an earlier attempt made the same store.

    ``from`` is ``pass`` if the run itself spent ``seconds`` and ``tokens``.
    """
    store = opened.folder.name
    if recorded(home).get("store") == store and opened.source == "store":
        return
    note = {"from": opened.source, "store": store, **opened.cost, "facts": dict(opened.facts)}
    home.mkdir(parents=True, exist_ok=True)
    reference_store.write(home / RECORD, (json.dumps(note, indent=1) + "\n").encode())
