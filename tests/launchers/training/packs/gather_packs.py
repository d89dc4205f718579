"""Packs of ms-swift's own collator, with and without the feature, for ``gather_edge.py``."""

import importlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.training.megatron_on_cpu import WORDS

BATCHES = 4
SPACE = 96
"""Tokens of a pack; those of its texts are 20 to 76."""
Batches = list[dict[str, Any]]


def template() -> Any:
    """Return ms-swift's own, as far as its collator of packs looks at it."""
    found = object.__new__(importlib.import_module("swift.template.base").Template)
    vars(found).update(
        {"mode": "rlhf", "task_type": "causal_lm", "packing": True, "padding_free": True},
        use_megatron=True,
        sequence_parallel_size=1,
        padding_side="right",
        processor=SimpleNamespace(pad_token_id=0),
        remove_unused_columns=True,
        tokenizer=SimpleNamespace(pad_token_id=0),
    )
    return found


def rows() -> list[list[Any]]:
    """Return packs of two pairs, others on each rank; no text asks for its first word."""
    chance = torch.Generator().manual_seed(10 + dist.get_rank())
    return [[pair(chance) for _ in range(2)] for _ in range(BATCHES)]


def packs(sizes: Sequence[int]) -> list[list[Any]]:
    """Return packs of so many pairs, the same on each rank and each time."""
    chance = torch.Generator().manual_seed(8)
    return [[pair(chance) for _ in range(size)] for size in sizes]


def pair(chance: Any, words: int = WORDS) -> dict[str, Any]:
    """Return a pair of random words; no text asks for its first word."""
    row: dict[str, Any] = {}
    for part in ("chosen", "rejected"):
        length = int(torch.randint(5, 20, (1,), generator=chance))
        text = torch.randint(1, words, (length,), generator=chance).tolist()
        row |= {f"{part}_input_ids": text, f"{part}_labels": [-100, *text[1:]]}
        row |= {f"{part}_length": length}
    return row


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return by how much gradients differ, as a part of the greatest of their tensor."""
    assert all(float(each.abs().max()) for each in one.values())
    return max(
        float((each - other[name]).abs().max() / each.abs().max()) for name, each in one.items()
    )


def collators(space: int) -> tuple[Any, Any]:
    """Return ms-swift's collator as it is, and the trainer's with the feature."""
    args = SimpleNamespace(
        **{"micro_batch_size": 1, "packing_length": space, "max_length": 20},
        **{"tensor_model_parallel_size": 1, "sequence_parallel": False, "fp8_recipe": "delayed"},
        **{"context_parallel_size": 1, "attention_backend": "flash"},
    )
    bases = importlib.import_module("swift.megatron.trainers.base")
    mine = template()
    trainer = SimpleNamespace(template=mine, args=args)
    return mine.data_collator, bases.BaseMegatronTrainer._get_data_collator(trainer)


def collated(collate: Any, key: str) -> Batches:
    """Return this rank's microbatches, with the reference's numbers under a key."""
    chance = torch.Generator().manual_seed(3)
    packs = rows()
    return [{**collate([pack]), key: -50 * torch.rand(2, 2, generator=chance)} for pack in packs]


def filling(plain: Batches, filled: Batches) -> bool:
    """Check that packs are padded by one more text of their own tokens, which counts nowhere."""
    right = []
    for before, after in zip(plain, filled, strict=True):
        real, words = sum(before["seq_lens"]), before["input_ids"][0]
        left = SPACE - real
        right += [
            after["seq_lens"] == before["seq_lens"],
            after["position_ids"][0].tolist()
            == [*before["position_ids"][0].tolist(), *range(left)],
            after["input_ids"][0].tolist() == (words.tolist() * 20)[:SPACE],
            after["labels"][0].tolist() == before["labels"][0].tolist() + left * [-100],
        ]
    return all(right)
