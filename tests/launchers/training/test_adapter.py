"""Features loaded into the training of an adapter, among fakes of ms-swift (it needs a GPU)."""

import json
from pathlib import Path

import pytest

from launchers.storage.checkpoint import COMPLETE, FEATURES, newest
from launchers.upstream.record import PACKAGES
from tests.launchers.training import fake_upstream

UPSTREAM = {
    **fake_upstream.CALLBACKS,
    "torch/distributed.py": """
def barrier(): pass
def get_rank(): return 0
def get_world_size(): return 1
""",
}
PROGRAM = """
import types
from pathlib import Path
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from launchers.training import loading
for feature in ("seal_megatron", "merge_last"):
    loading.install(feature)

# as swift/megatron/trainers/base.py: train, save_checkpoint
args = types.SimpleNamespace(train_iters=6, save_steps=2, merge_lora=True)
state = types.SimpleNamespace(iteration=0, best_model_checkpoint=None)
trainer = types.SimpleNamespace(args=args, state=state)
callbacks = [megatron_callbacks_map[name](trainer) for name in ("seal", "merge_last")]
for state.iteration in range(1, args.train_iters + 1):
    for callback in callbacks:
        if hasattr(callback, "on_step_end"):
            callback.on_step_end()
    if state.iteration % args.save_steps:
        continue
    folder = Path("checkpoints") / f"checkpoint-{state.iteration}"
    for into in [folder, Path(f"{folder}-merged")] if args.merge_lora else [folder]:
        into.mkdir(parents=True)
        (into / "model.safetensors").write_text("w")
    for callback in callbacks:
        if hasattr(callback, "on_save"):
            callback.on_save(str(folder))
print(*sorted(path.name for path in Path("checkpoints").iterdir()))
"""


def test_only_the_last_checkpoint_is_merged_and_both_are_sealed(tmp_path: Path) -> None:
    seen = fake_upstream.run(tmp_path, PROGRAM, UPSTREAM, torch=False)
    assert seen == "checkpoint-2 checkpoint-4 checkpoint-6 checkpoint-6-merged"
    last = newest(tmp_path / "checkpoints")
    assert last is not None and last.step == 6 and last.is_merged_whole
    recorded = json.loads((last.path / FEATURES).read_text())
    assert recorded["features"] == ["seal_megatron", "merge_last"]
    states = {name: patch["state"] for name, patch in recorded["patches"].items()}
    assert states == {"seal-megatron": "accepted", "merge-last": "accepted"}
    assert set(recorded["versions"]) == {*PACKAGES, "launcher"}
    assert FEATURES in json.loads((last.path / COMPLETE).read_text())["files"]


SEAL = """
from pathlib import Path
from launchers.training import seal_megatron
import threading, types

read = threading.Event()
def seal(folder, step):
    print(folder.name)
    read.set()
    return None if folder.name.endswith(REFUSED) else folder

class Writes:
    has_copied = True
    def start(self, step, written, complete, announce):
        print("written" if read.wait(10) else "not read meanwhile")
        complete(0.0)

seal_megatron.seal = seal
if IN_BACKGROUND:
    seal_megatron.background.current = Writes
for name in ("checkpoint-2", "checkpoint-2-merged"):
    Path("checkpoints", name).mkdir(parents=True)
state = types.SimpleNamespace(iteration=2, best_model_checkpoint=None)
args = types.SimpleNamespace(train_iters=4)
callback = seal_megatron.SealCallback(types.SimpleNamespace(args=args, state=state))
callback.on_save("checkpoints/checkpoint-2")
"""


@pytest.mark.parametrize(
    ("in_background", "refused", "done"),
    [
        (False, "none", ["checkpoint-2-merged", "checkpoint-2"]),
        (True, "none", ["checkpoint-2-merged", "written", "checkpoint-2"]),
        (True, "merged", ["checkpoint-2-merged", "written"]),
    ],
)
def test_the_merged_model_is_sealed_first_and_read_while_the_checkpoint_is_written(
    tmp_path: Path, in_background: bool, refused: str, done: list[str]
) -> None:
    program = f"IN_BACKGROUND, REFUSED = {in_background}, {refused!r}\n" + SEAL
    assert fake_upstream.run(tmp_path, program, UPSTREAM, torch=False).splitlines() == done


RETENTION = """
from pathlib import Path
from launchers.storage.checkpoint import seal
from launchers.training import seal_megatron
from swift.megatron.trainers.base import BaseMegatronTrainer
import torch.distributed as dist
import types

dist.get_rank, dist.get_world_size, dist.barrier = lambda: 0, lambda: 1, lambda: None
seal_megatron.install()

class Trainer(BaseMegatronTrainer):
    args = types.SimpleNamespace(output_dir="checkpoints")

    def save(self):
        folder = Path("checkpoints") / f"checkpoint-{self.state.iteration}"
        (folder / "__0_0.distcp").write_text("w")
        (folder / ".metadata").write_text("the index of the shards")

def save(step, sealed):
    trainer = Trainer()
    trainer.state = types.SimpleNamespace(iteration=step)
    trainer.save_checkpoint()
    folder = Path("checkpoints") / f"checkpoint-{step}"
    if sealed:
        seal(folder, step)
    return folder

save(2, True), save(4, True)
save(6, False)  # a kill cut the save
args = types.SimpleNamespace(save_total_limit=2, train_iters=9)
state = types.SimpleNamespace(iteration=8, best_model_checkpoint="checkpoints/checkpoint-2")
callback = seal_megatron.SealCallback(types.SimpleNamespace(args=args, state=state))
callback.on_train_begin()
print(args.save_total_limit)
callback.on_save(str(save(8, False)))
print(*sorted(path.name for path in Path("checkpoints").iterdir()))
"""


def test_older_checkpoints_are_deleted_after_the_seal_and_an_unsealed_one_does_not_count(
    tmp_path: Path,
) -> None:
    seen = fake_upstream.run(tmp_path, RETENTION, UPSTREAM, torch=False)
    assert seen.splitlines() == ["None", "checkpoint-2 checkpoint-8"]
