"""List what the workspace holds by run: a program without imports of the project.

It prints a JSON list with, for each run: name, state, bytes by part, its checkpoints with whether
each is complete, and the time of the last change.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Fields = dict[str, Any]
PARTS = ("attempts", "checkpoints", "export")


def inventory(root: Path) -> list[Fields]:
    """Return the runs of a workspace, by name."""
    try:
        homes = sorted((root / "runs").iterdir())
    except FileNotFoundError:
        return []
    return [run(home) for home in homes if home.is_dir() and not home.is_symlink()]


def run(home: Path) -> Fields:
    """Return one run."""
    sizes = {part: size(home / part) for part in PARTS}
    progress = parsed(home / "progress.json")
    return {
        "run": home.name,
        "state": str(progress.get("state") or ""),
        "bytes": {**sizes, "other": size(home) - sum(sizes.values())},
        "checkpoints": checkpoints(home / "checkpoints"),
        "export": (home / "export").is_dir(),
        "updated": progress.get("updated"),
    }


def size(folder: Path) -> int:
    """Return the bytes of the files below a folder; links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total


def parsed(path: Path) -> Fields:
    """Return the JSON object in a file; empty when it is missing or torn."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def checkpoints(folder: Path) -> list[Fields]:
    """Return the checkpoints with their manifests' verdict, in the order of steps."""
    found = []
    for path in folder.glob("checkpoint-*") if folder.is_dir() else ():
        step = path.name.removeprefix("checkpoint-")
        if not path.is_dir() or not step.isdecimal():
            continue
        manifest = parsed(path / "COMPLETE.json")
        listed = manifest.get("files") or {}
        sizes = {}
        for name in listed:
            with contextlib.suppress(OSError):
                sizes[name] = (path / name).stat().st_size
        whole = bool(listed) and sizes == listed and manifest.get("step") == int(step)
        found.append({"step": int(step), "complete": whole, "bytes": size(path)})
    return sorted(found, key=lambda each: each["step"])


def main(words: Sequence[str]) -> None:
    """Print the inventory of `ROOT`."""
    json.dump(inventory(Path(words[0])), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
