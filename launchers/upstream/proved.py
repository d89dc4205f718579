"""Patches that this installation has proved on sources that were not read (``patches --prove``).

The record is on the workspace, which every start of the installation mounts. A proof is of one
launcher and of whole digests: after a change of either the patch has to be proved again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from json import dumps
from pathlib import Path

from launchers import version
from launchers.config.workspace import Workspace
from launchers.system.atomic_file import read_object, replace

NAME = "patches-proved.json"
Digests = Mapping[str, str]


def file(env: Mapping[str, str]) -> Path | None:
    """Return the record's path; None without a workspace in the environment.

    >>> str(file({"DPO_RUN_FOLDER": "/w/runs/a"}))
    '/w/cache/patches-proved.json'
    """
    root, home = env.get("DPO_WORKSPACE"), env.get("DPO_RUN_FOLDER")
    if not root and home:
        root = str(Workspace.of(Path(home)).root)
    return Path(root) / "cache" / NAME if root else None


def date(name: str, digests: Digests, env: Mapping[str, str]) -> str:
    """Return the day on which a patch was proved on these sources; empty if it was not.

    Raises:
        LaunchError: IO if the workspace does not answer.
    """
    path = file(env)
    found = read_object(path).get(name) if path else None
    if not isinstance(found, dict) or found.get("digests") != dict(digests):
        return ""
    return str(found["date"]) if found.get("launcher") == _own() else ""


def write(proofs: Mapping[str, Digests], failed: list[str], env: Mapping[str, str]) -> None:
    """Add proofs of today to the record, by the patches' names; remove what failed.

    Raises:
        OSError: the workspace cannot be written.
    """
    path = file(env)
    assert path is not None, "the command requires a workspace"
    today = datetime.now(UTC).date().isoformat()
    kept = {name: each for name, each in read_object(path).items() if name not in failed}
    made = {n: {"date": today, "launcher": _own(), "digests": dict(d)} for n, d in proofs.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, dumps(kept | made, indent=1) + "\n")


@cache
def _own() -> str:
    return version.own_digest()
