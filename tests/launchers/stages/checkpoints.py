from launchers.config.workspace import Workspace
from launchers.storage.checkpoint import Checkpoint, seal


def sealed(work: Workspace, step: int) -> Checkpoint:
    """Make the complete checkpoint of a step, with one file of weights."""
    folder = work.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    seal(folder, step)
    return Checkpoint(path=folder, step=step)
