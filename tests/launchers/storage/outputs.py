"""Shortcuts to produce an output in the tests of ``storage.output``."""

from collections.abc import Callable
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.storage import output
from launchers.storage.output import Outcome, produce


def writer(**files: str) -> Callable[[Path], None]:
    """Return a function that writes these texts by file name."""

    def make(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)

    return make


def failing(**files: str) -> Callable[[Path], None]:
    """Return a function that writes these texts, and then finds the hub down."""

    def make(folder: Path) -> None:
        writer(**files)(folder)
        raise LaunchError(Exit.UNAVAILABLE, "hub down", "wait", id="hub-down")

    return make


def never(folder: Path) -> None:
    """Fail: the output must not be produced again."""
    raise AssertionError(f"made again: {folder}")


def run(
    path: Path, make: output.Make, inputs: dict[str, object] | None = None, skip: bool = False
) -> Outcome:
    return produce("download", "m", path, inputs or {"v": 1}, make, skip=skip, holder="t")
