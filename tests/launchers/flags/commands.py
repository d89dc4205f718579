"""Recipes and the flags that training gets for them."""

from pathlib import Path

from launchers.config.flag_value import Value
from launchers.config.recipe import Recipe
from launchers.flags import features
from launchers.flags.command_line import Inputs, training_flags
from launchers.storage.checkpoint import Checkpoint

MODEL, MCORE, OUT = Path("/w/models/m"), Path("/w/mcore/m"), Path("/w/runs/r/checkpoints")


def flags(
    of: Recipe, *, mcore: Path | None = None, resume: Checkpoint | None = None, cpu: bool = False
) -> dict[str, Value]:
    inputs = Inputs(model=MODEL, mcore=mcore, datasets=("/w/d",), clone=Path("/w/code"))
    return training_flags(of, inputs, output_dir=OUT, resume=resume, on_cpu=cpu)


def names(of: Recipe) -> list[str]:
    return features.names(of, on_cpu=False)


def saved(folder: Path, *, state: bool) -> Checkpoint:
    path = folder / "checkpoint-5"
    (path / "iter_0000005").mkdir(parents=True)
    if state:
        (path / "iter_0000005" / ".metadata").touch()
    return Checkpoint(path=path, step=5)
