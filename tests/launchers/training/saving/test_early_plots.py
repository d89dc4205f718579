"""What ms-swift plots is drawn during the last save, and again only if more was logged."""

from pathlib import Path

from scripts.dev.flags import site_packages
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import TRAIN, needs_training

CALLBACK = """
class TensorboardCallback:
    writer = None
"""
STUBS = {
    **fake_upstream.CALLBACKS,
    "swift/megatron/callbacks/tensorboard.py": CALLBACK,
    "swift/megatron/pipelines/train/sft.py": "from swift.utils.tb_utils import plot_images",
    "swift/utils/__init__.py": "def is_last_rank(): return True",
}
PLOTS = "swift/utils/tb_utils.py"
PROGRAM = """
import pathlib, types
from torch.utils.tensorboard import SummaryWriter
from swift.megatron.callbacks.tensorboard import TensorboardCallback
from swift.megatron.pipelines.train import sft
from swift.megatron.trainers.base import BaseMegatronTrainer
from launchers.training.saving import early_plots
images, events = map(pathlib.Path, ("out/images", "out/runs"))
trainer, callback = BaseMegatronTrainer(), TensorboardCallback()
trainer.args = types.SimpleNamespace(output_dir="out", tensorboard_dir=str(events), train_iters=4)
trainer.callbacks, trainer.save = [object(), TensorboardCallback(), callback], lambda: None
callback.writer = SummaryWriter(events)
early_plots.install()

def drawn(step):
    trainer.state = types.SimpleNamespace(iteration=step)
    trainer.save_checkpoint()
    if early_plots.Drawn.current is not None:
        early_plots.Drawn.current.has(images, events)
    return sorted(path.name for path in images.glob("*"))

def drawn_again():
    for path in images.glob("*"):
        path.unlink()
    sft.plot_images(str(images), str(events))
    return sorted(path.name for path in images.glob("*"))

callback.writer.add_scalar("train/loss", 1.0, 4)
print(drawn(2), drawn(4))
callback.writer.close()
print(drawn_again())
with SummaryWriter(events) as writer:
    writer.add_scalar("train/late", 1.0, 5)
print(len(drawn_again()))
"""


@needs_training
def test_plots_are_drawn_in_the_last_save_and_after_it_only_if_more_was_logged(
    tmp_path: Path,
) -> None:
    plots = {PLOTS: (site_packages(TRAIN) / PLOTS).read_text()}
    lines = fake_upstream.run(tmp_path, PROGRAM, STUBS | plots).splitlines()
    assert lines == ["[] ['train_loss.png']", "[]", "1"]


IN_A_STANDBY = """
import types
from swift.megatron.trainers.base import BaseMegatronTrainer
from launchers.training.saving import early_plots, safetensors_last
for feature in (safetensors_last, early_plots):
    feature.install()
trainer, written = BaseMegatronTrainer(), []
trainer.args = types.SimpleNamespace(save_safetensors=True, train_iters=4)
trainer.callbacks, trainer.state = [], types.SimpleNamespace(iteration=2)
trainer.save = lambda: written.append(trainer.args.save_safetensors)
trainer.save_checkpoint()
print(written, trainer.args.save_safetensors)
"""


@needs_training
def test_features_that_are_imported_before_any_is_installed_all_take_part_in_a_save(
    tmp_path: Path,
) -> None:
    assert (
        fake_upstream.run(tmp_path, IN_A_STANDBY, STUBS | {PLOTS: "plot_images = None"})
        == "[False] True"
    )
