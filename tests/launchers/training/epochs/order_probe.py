"""Row order of ms-swift's data loaders in a resumed epoch; runs in the training Python.

``order_probe [FEATURE]`` prints JSON: the rows of two undisturbed epochs, and those that a resume
after two batches of the second reads, with the calls of transformers 4 and 5 in their order; each
without and with sequence parallelism. The loaders are ms-swift's own, of a trainer without model.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

ROWS, BATCH, SKIPPED = 12, 2, 2


def trainer(sequence_parallel: bool) -> Any:
    """Return what ms-swift's functions for data loaders need of a trainer."""
    from swift.trainers.mixin import DataLoaderMixin, SwiftMixin

    class Trainer(DataLoaderMixin, SwiftMixin):  # type: ignore[misc]
        def __init__(self) -> None:
            loading = {"num_workers": 0, "pin_memory": False, "persistent_workers": False}
            flags: dict[str, Any] = {f"dataloader_{name}": value for name, value in loading.items()}
            flags |= {"dataloader_prefetch_factor": None, "dataloader_drop_last": False}
            flags |= {"train_dataloader_shuffle": True, "data_seed": 7, "deepspeed": None}
            self.args = SimpleNamespace(**flags, group_by_length=False, process_index=0)
            self.template = SimpleNamespace(sequence_parallel_size=1 + sequence_parallel)
            self.accelerator = SimpleNamespace(device=None)
            self.train_dataset, self._train_batch_size = list(range(ROWS)), BATCH
            self.data_collator = list

        def _get_collator_with_removed_columns(self, collator: Any, **_: Any) -> Any:
            return collator

    return Trainer()


def orders(sequence_parallel: bool) -> dict[str, list[int]]:
    import transformers.trainer

    made = trainer(sequence_parallel)
    whole = made.get_train_dataloader()
    epochs = []
    for epoch in (0, 1):
        whole.set_epoch(epoch)
        epochs.append([row for batch in whole for row in batch])
    found = dict(zip(("first", "second"), epochs, strict=True))
    with made._patch_skip_first_batches():
        resumed = made.get_train_dataloader()
        resumed.set_epoch(1)
        rest = transformers.trainer.skip_first_batches(resumed, SKIPPED)
        found["transformers 4"] = [row for batch in rest for row in batch]
        rest = transformers.trainer.skip_first_batches(made.get_train_dataloader(), SKIPPED)
        rest.set_epoch(1)
        found["transformers 5"] = [row for batch in rest for row in batch]
    return found


def main() -> None:
    import torch.distributed as dist
    from swift.sequence_parallel import sequence_parallel
    from torch.distributed.device_mesh import init_device_mesh

    from launchers.training import loading

    for feature in sys.argv[1:]:
        loading.install(feature)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    sequence_parallel.device_mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "seq"))
    print(json.dumps({"plain": orders(False), "sequence parallel": orders(True)}))


if __name__ == "__main__":
    main()
