"""Draw ms-swift's plots during the last save of a run.

Its last rank draws them when training has ended (``swift/megatron/pipelines/train/sft.py``), and
the export waits for it: 5 s (tests/bench/notes/restarts.md). All that they show has been logged
before the save, so another process draws them then; with other events since, upstream draws again.
"""

import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from swift.megatron.callbacks import tensorboard
from swift.megatron.pipelines.train import sft
from swift.megatron.trainers.base import BaseMegatronTrainer
from swift.utils import is_last_rank

from launchers.stop import finished

_plot = sft.plot_images
DRAW = "import runpy, sys; runpy.run_path(sys.argv[1])[sys.argv[2]](*sys.argv[3:])"
"""A program that calls a function of a file that imports nothing else of ms-swift."""
SECONDS = 120.0
"""Time in which it must end: it has begun before, so to wait takes less than to draw again."""


class Drawn:
    """What another process draws."""

    current: ClassVar["Drawn | None"] = None

    def __init__(self, images: Path, events: Path) -> None:
        """Begin."""
        self.folders, self.files = (images, events), sizes(events)
        words = [str(inspect.getsourcefile(_plot)), _plot.__name__, *map(str, self.folders)]
        self._process = subprocess.Popen([sys.executable, "-c", DRAW, *words])

    def has(self, images: Path, events: Path) -> bool:
        """Wait for its end; return whether it has drawn all events in a folder."""
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(SECONDS)
            return (code, self.folders, self.files) == (0, (images, events), sizes(events))
        self._process.kill()
        return False


def sizes(events: Path) -> Mapping[Path, int]:
    """Return the bytes of TensorBoard's files."""
    return {path: path.stat().st_size for path in events.rglob("events.out.tfevents.*")}


def save_checkpoint(self: Any, save: Callable[[Any], None]) -> None:
    """Begin to draw on the last rank if the run ends with this step, and save as upstream."""
    args, writers = self.args, [each for each in self.callbacks if _writes(each)]
    if writers and is_last_rank() and finished.is_last(self.state.iteration, args.train_iters):
        for each in writers:
            each.writer.flush()
        Drawn.current = Drawn(Path(args.output_dir, "images"), Path(args.tensorboard_dir))
    save(self)


def _writes(callback: Any) -> bool:
    return isinstance(callback, tensorboard.TensorboardCallback) and callback.writer is not None


def plot_images(images_dir: str, tb_dir: str, *given: Any, **named: Any) -> None:
    """Draw as upstream what was not drawn yet."""
    drawn = Drawn.current
    if drawn is None or not drawn.has(Path(images_dir), Path(tb_dir)):
        _plot(images_dir, tb_dir, *given, **named)


def install() -> None:
    """Replace both functions."""
    sft.plot_images = plot_images
    save = BaseMegatronTrainer.save_checkpoint  # as features before have left it
    BaseMegatronTrainer.save_checkpoint = lambda self: save_checkpoint(self, save)
