"""Packing by ms-swift and dealing by the launcher of 40,000 pairs; runs in the training Python.

``.tools/train/bin/python -m tests.launchers.training.packs.packing_probe CONFIG`` prints JSON:
figures by distribution, packing length and replicas, and differences between our sampler and
ms-swift's; with ``--without-figures`` only the latter.
"""

import inspect
import json
import math
import os
import random
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from tests.launchers.training import module_file, stand_ins

PAIRS, SEED = 40_000, 11
LENGTHS = (8192, 16384, 32768)
LAYOUTS = ((4, 32), (4, 128), (8, 128), (16, 128))
"""Replicas and packs of a step."""


def pairs(name: str, count: int = PAIRS) -> list[list[int]]:
    """Make lengths of chosen and rejected; ``long`` has pairs of more than 8,192 tokens."""
    chance = random.Random(7)
    sigma, low, high = {
        "lognormal": (0.7, 200, 8192),
        "heavy": (1.15, 200, 8192),
        "long": (1.15, 200, 16384),
    }[name]
    made: list[list[int]] = []
    while len(made) < count:
        both = int(chance.lognormvariate(math.log(1100), sigma))
        chosen = int(both * chance.uniform(0.4, 0.6))
        if low <= both <= high and max(chosen, both - chosen) <= 8192:
            made.append([chosen, both - chosen])
    return made


def without_megatron() -> None:
    """Let the feature be imported where megatron-core cannot: real sampler, empty trainer."""
    import swift

    sampler = Path(swift.__file__).parent / "megatron" / "trainers" / "batch_sampler.py"
    iters = {"init_iters": lambda self, train_dataset, val_dataset: None}
    arguments = type("MegatronArguments", (), iters)
    trainer = type("BaseMegatronTrainer", (), {"_create_dataloader": lambda *given: given})
    stand_ins.install(
        {
            "swift.megatron.arguments": {"MegatronArguments": arguments},
            "swift.megatron.trainers.base": {"BaseMegatronTrainer": trainer},
        }
    )
    module_file.load("swift.megatron.trainers.batch_sampler", sampler)


class Rows:
    """A dataset as far as packing looks at it."""

    def __init__(self, lengths: list[list[int]]) -> None:
        self.lengths = lengths

    def __getitem__(self, column: str) -> list[list[int]]:
        return {"lengths": self.lengths}[column]

    def __len__(self) -> int:
        return len(self.lengths)


def packed(lengths: list[list[int]], length: int, **options: Any) -> Any:
    from swift.dataset import PackingDataset

    return PackingDataset(types.SimpleNamespace(max_length=length), Rows(lengths), **options)


def sampler(dataset: Any, replica: int, sizes: tuple[int, int, int], consumed: int = 0) -> Any:
    """Make ms-swift's sampler of one replica; sizes are replicas, micro and global batch."""
    from swift.megatron.trainers.batch_sampler import MegatronPretrainingRandomSampler

    takes_seed = "seed" in inspect.signature(MegatronPretrainingRandomSampler).parameters
    return MegatronPretrainingRandomSampler(
        dataset,
        total_samples=len(dataset),
        consumed_samples=consumed,
        micro_batch_size=sizes[1],
        data_parallel_rank=replica,
        data_parallel_size=sizes[0],
        data_sharding=False,
        **({"seed": SEED} if takes_seed else {}),  # of data_seed, since 4.6.0
    )


def figures(model: Path) -> dict[str, Any]:
    from launchers.plan import model_config
    from launchers.training.packs import dealing, packing
    from launchers.training.packs.packing_record import Packs, report

    cost = dealing.cost(model_config.parse_config(json.loads(model.read_text(encoding="utf-8"))))
    found: dict[str, Any] = {}
    for name in ("lognormal", "heavy", "long"):
        for length in LENGTHS:
            dataset = packed(pairs(name), length)
            packs = Packs(texts=dataset.dataset.lengths, packs=dataset.packed_idx, length=length)
            costs = packs.costs(cost)
            for replicas, batch in LAYOUTS:
                upstream = sampler(dataset, 0, (replicas, 1, batch))
                rows = list(map(len, packs.packs))
                ours = packing.DealtSampler(upstream, costs, rows, batch)
                seen = report(packs, cost, list(ours.rounds(0, 0, batch))).document()
                order = ours.shuffled(0)
                starts = range(0, len(order), replicas)
                undealt = [[[pack] for pack in order[s : s + replicas]] for s in starts]
                seen["undealt"] = dealing.imbalance(undealt, costs)
                found[f"{name} {length} dp{replicas} gbs{batch}"] = seen
    return found


def steps(samplers: list[Any], batch: int, count: int) -> list[list[list[int]]]:
    """Draw steps: of each step each replica's packs."""
    micro = samplers[0].micro if hasattr(samplers[0], "micro") else samplers[0].micro_batch_size
    draws = [_endless(each) for each in samplers]
    rounds = batch // micro // len(samplers)
    return [[[p for _ in range(rounds) for p in next(d)] for d in draws] for _ in range(count)]


def _endless(each: Any) -> Any:
    while True:
        yield from each


def faults() -> list[str]:
    """Compare our sampler with ms-swift's; return what is wrong."""
    from launchers.training.packs import packing

    dataset = packed(pairs("heavy", 4000), 8192)
    wrong = []
    for sizes in ((4, 1, 16), (2, 2, 16), (1, 1, 8)):
        replicas, micro, batch = sizes
        count = len(dataset) // (replicas * micro) * replicas * micro // batch
        costs = [float(n * n % 977) for n in dataset.packed_length]
        rows = [len(pack) for pack in dataset.packed_idx]

        def ours(
            consumed: int, sizes: Any = sizes, costs: Any = costs, rows: Any = rows
        ) -> list[Any]:
            return [
                packing.DealtSampler(sampler(dataset, r, sizes, consumed), costs, rows, sizes[2])
                for r in range(sizes[0])
            ]

        theirs = steps([sampler(dataset, r, sizes) for r in range(replicas)], batch, count)
        whole = steps(ours(0), batch, 2 * count + 3)
        for number, (one, other) in enumerate(zip(theirs, whole, strict=False)):
            if sorted(sum(one, [])) != sorted(sum(other, [])):
                wrong.append(f"{sizes}: step {number} has other packs than ms-swift's")
        for number, one in enumerate(whole):  # over two epochs and a step that is in both
            if ours(0)[-1].rows_of_step(number * batch) != sum(rows[p] for p in sum(one, [])):
                wrong.append(f"{sizes}: step {number} has another number of rows than announced")
        for start in (1, count - 1, count, count + 5):
            if steps(ours(start * batch), batch, 3) != whole[start : start + 3]:
                wrong.append(f"{sizes}: a run that resumes at step {start} sees other packs")
        if [s for each in steps(ours(0), batch, count) for s in each] == sum(theirs, []):
            wrong.append(f"{sizes}: nothing is dealt otherwise than by ms-swift")
    return wrong


def spawned() -> list[str]:
    """Pack as a rank with CUDA does, where ms-swift spawns a worker; return what is wrong."""
    import multiprocessing

    import swift.dataset.packing as datasets

    if not getattr(datasets, "_spawn_workers", None):
        return []

    def refuse(process: Any) -> None:
        raise RuntimeError(f"{process.name} was spawned")

    rows, context = pairs("heavy", 2000), multiprocessing.get_context("spawn")
    context.Process.start = refuse  # type: ignore[method-assign, assignment]
    made = packed(rows, 8192, multiprocessing_context="spawn")
    same = made.packed_idx == packed(rows, 8192).packed_idx
    return [] if same else ["packs differ from a forked worker's"]


def edges(model: Path) -> list[str]:
    import torch.distributed as dist
    from swift.megatron.arguments import MegatronArguments

    from launchers.exits import LaunchError
    from launchers.progress.training import PACKING
    from launchers.training.packs import packing

    dataset = packed(pairs("heavy", 2000), 8192)
    given = {"model": str(model.parent), "global_batch_size": 16, "rlhf_type": "dpo"}
    args = types.SimpleNamespace(**given)
    trainer = types.SimpleNamespace(args=args)
    holds: dict[str, bool] = {}

    def is_dealt(**upstream: bool) -> bool:
        given = sampler(dataset, 0, (4, 1, 16))
        vars(given).update(upstream)
        loader = packing.create_dataloader(trainer, dataset, given)[2]
        return isinstance(loader, packing.DealtSampler)

    none = {"micro_batch_size": 1, "data_parallel_size": 4, "global_batch_size": 4096}
    try:
        counted = types.SimpleNamespace(**none, train_iters=0)
        MegatronArguments.init_iters(counted, dataset, None)
        holds["without a step there is an error"] = False
    except LaunchError:
        pass
    os.environ["DPO_ATTEMPT_FOLDER"] = str(model.parent)
    holds["packs are dealt out"] = is_dealt()
    found = json.loads((model.parent / PACKING).read_text())
    holds["packing.json counts the rows"] = found["rows"] == 2000
    os.environ["DPO_ATTEMPT_FOLDER"] = "/proc/no/where"
    holds["packs are dealt out where the report cannot be written"] = is_dealt()
    holds["shards are left to ms-swift"] = not is_dealt(data_sharding=True)
    holds["an order that is not random is left to ms-swift"] = not is_dealt(shuffle=False)
    args.model = "/nowhere"
    holds["without config.json packs are dealt out by tokens"] = is_dealt()
    dist.is_initialized, dist.get_world_size = lambda: True, lambda: 2
    dist.all_gather_object = lambda seen, own: seen.__setitem__(slice(0, 2), [own, "other"])
    try:
        is_dealt()
        holds["a rank that sees other rows ends"] = False
    except LaunchError as error:
        print("REFUSAL", json.dumps(traceback.format_exception(error)))
    return [name for name, is_so in holds.items() if not is_so]


def main() -> None:
    without_megatron()
    from launchers.training import loading

    loading.install("packing")
    model = Path(sys.argv[1])
    found = {
        "figures": {} if "--without-figures" in sys.argv else figures(model),
        "faults": faults() + spawned(),
    }
    print(json.dumps(found | {"edges": edges(model)}, indent=1))


if __name__ == "__main__":
    main()
