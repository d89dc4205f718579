from collections.abc import Mapping
from pathlib import Path

from launchers.config.workspace import Workspace
from launchers.storage.checkpoint import Checkpoint, newest, seal

WEIGHTS = "model.safetensors"


def sealed(work: Workspace, step: int, files: Mapping[str, str] | None = None) -> Checkpoint:
    """Make the complete checkpoint of a step, with one file of weights or the given ones."""
    folder = work.checkpoints / f"checkpoint-{step}"
    for name, text in ({WEIGHTS: "w"} if files is None else files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    seal(folder, step)
    return Checkpoint(path=folder, step=step)


def newest_step(folder: Path) -> int:
    """Return the step of the newest complete checkpoint, 0 without one."""
    found = newest(folder)
    return 0 if found is None else found.step
