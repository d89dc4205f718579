"""ms-swift's reward trainers on pairs and on the same pairs swapped; run by the training Python.

``-m tests.launchers.training.collect.swapped_reward BACKEND``: prints a line of JSON for each
layout of the batch: what is reported before and after chosen and rejected are swapped. The losses,
the choice of each text's last token and, on transformers, the model are the real ones; on Megatron
a token's reward is read from a table.
"""

import importlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import torch

from tests.launchers.reference import megatron_free

WORDS, PAIRS = 40, 7
PAD = 0
CENTER = 0.25
Texts = list[torch.Tensor]


def texts(chance: torch.Generator) -> Texts:
    """Return texts of different lengths, none of which has the padding's word."""
    lengths = torch.randint(2, 9, (PAIRS,), generator=chance).tolist()
    return [torch.randint(1, WORDS, (length,), generator=chance) for length in lengths]


def padded(rows: Texts) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the words of texts that are padded on the right, and where they are text."""
    words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return words, (words != PAD).long()


def on_transformers(rows: Texts, center: float | None) -> dict[str, float]:
    """Return the loss and the metrics of transformers' trainer for chosen, then rejected texts."""
    transformers = importlib.import_module("transformers")
    trainers = importlib.import_module("swift.rlhf_trainers.reward_trainer")
    torch.manual_seed(1)
    config = transformers.Qwen2Config(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=16,
        num_labels=1,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        pad_token_id=PAD,
    )
    model = transformers.Qwen2ForSequenceClassification(config).train()
    metrics: dict[str, float] = {}
    run = object.__new__(trainers.RewardTrainer)
    run.model, run.model_accepts_loss_kwargs = model, False
    run.custom_metrics = {"train": Meters(metrics)}
    run.args = SimpleNamespace(center_rewards_coefficient=center)
    words, mask = padded(rows)
    loss = run.compute_loss(model, {"input_ids": words, "attention_mask": mask})
    return {"loss": loss.item(), **metrics}


class Meters(dict[str, Any]):
    """Meters that write what they are given under their names."""

    def __init__(self, seen: dict[str, float]) -> None:
        self.seen = seen

    def __missing__(self, name: str) -> Any:
        return SimpleNamespace(update=lambda value: self.seen.update({name: float(value)}))


def on_megatron(rows: Texts, center: float | None, *, packed: bool) -> dict[str, float]:
    """Return the loss and the metrics of Megatron's trainer for chosen, then rejected texts."""
    trainers = importlib.import_module("swift.megatron.trainers.reward_trainer")
    rewards = torch.randn(WORDS, 1, generator=torch.Generator().manual_seed(2))
    run = object.__new__(trainers.MegatronRewardTrainer)
    run.args = SimpleNamespace(center_rewards_coefficient=center, context_parallel_size=1)
    run._all_reduce_metric = lambda metric: metric
    data: dict[str, Any] = {}
    if packed:
        lengths = torch.tensor([len(row) for row in rows])
        words = torch.cat([*rows, torch.full((3,), PAD)])[None]
        begins = torch.cat([torch.tensor([0]), lengths.cumsum(0), torch.tensor([words.shape[1]])])
        data["packed_seq_params"] = SimpleNamespace(cu_seqlens_q=begins, seq_lens=lengths)
    else:
        words, mask = padded(rows)
        size = words.shape[1]
        causal = torch.ones(size, size).tril().bool()
        data["attention_mask"] = ~(causal & mask.bool()[:, None, None, :])
    loss, metric = run.loss_func(rewards[words], data=data)
    return {**{name: float(value) for name, value in metric.items()}, "loss": loss.item()}


def main(backend: str) -> None:
    chance = torch.Generator().manual_seed(5)
    chosen, rejected = texts(chance), texts(chance)
    for center in (None, CENTER):
        for packed in (False, True) if backend == "megatron" else (False,):
            given = {"packed": packed} if backend == "megatron" else {}
            report: Any = on_megatron if given else on_transformers
            orders = ([*chosen, *rejected], [*rejected, *chosen])
            print(json.dumps([report(rows, center, **given) for rows in orders]))


if __name__ == "__main__":
    if sys.argv[1] == "megatron":
        megatron_free.enter()
    main(sys.argv[1])
