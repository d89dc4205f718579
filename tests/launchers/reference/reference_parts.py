"""A model of one table, pairs and a trainer around them, for ``reference_edge.py``."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch


class Policy(torch.nn.Module):  # type: ignore[misc]
    """A model of one table, which says what a token costs; dropout shows whether it trains."""

    vp_stage = None

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(64, 64)
        self.dropout = torch.nn.Dropout(0.5)
        self.seen: list[tuple[bool, bool]] = []
        self.dies_after = 10**9

    def forward(self, input_ids: Any, labels: Any, **others: Any) -> Any:
        assert set(others) <= {"position_ids", "packed_seq_params", "attention_mask"}, others
        if len(self.seen) >= self.dies_after:
            raise KeyboardInterrupt
        self.seen.append((self.training, torch.is_grad_enabled()))
        logits = self.dropout(self.table(input_ids))
        some = labels.clamp(min=0)
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), some, reduction="none")


class Wrapper(torch.nn.Module):  # type: ignore[misc]
    """Stands for DDP and Float16Module."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, **data: Any) -> Any:
        return self.module(**data)


def row(chance: Any) -> dict[str, list[int]]:
    made: dict[str, list[int]] = {}
    for side in ("chosen", "rejected"):
        size = int(torch.randint(4, 12, (), generator=chance))
        ids = torch.randint(1, 64, (size,), generator=chance).tolist()
        made |= {f"{side}_input_ids": ids, f"{side}_labels": [-100, -100, *ids[2:]]}
    return made


def collate(batch: list[Any]) -> dict[str, Any]:
    """Put chosen and then rejected texts behind each other, with a tail of padding."""
    rows = [r for pack in batch for r in pack]
    texts = [(r[f"{s}_input_ids"], r[f"{s}_labels"]) for s in ("chosen", "rejected") for r in rows]
    tail = 3
    return {
        "input_ids": torch.tensor([[i for ids, _ in texts for i in ids] + [0] * tail]),
        "labels": torch.tensor([[n for _, labels in texts for n in labels] + [-100] * tail]),
        "position_ids": torch.tensor([[p for ids, _ in texts for p in range(len(ids))] + [0] * 3]),
        "loss_scale": torch.ones(1, 1),
        "seq_lens": [len(ids) for ids, _ in texts],
    }


def options(home: Path, **changed: Any) -> Any:
    (home / "model").mkdir(parents=True, exist_ok=True)
    loss = {"beta": 0.1, "label_smoothing": 0.0, "f_divergence_type": "reverse_kl"}
    loss |= {"loss_type": "sigmoid", "reference_free": False, "rpo_alpha": None}
    task = {"task_type": "causal_lm", "rlhf_type": "dpo", "tuner_type": "full"}
    sizes = dict.fromkeys(("context_parallel_size", "pipeline_model_parallel_size"), 1)
    batch = {"micro_batch_size": 1, "seq_length": 64, "padding_free": True, "streaming": False}
    loader = {"num_workers": 0, "pin_memory": False, "prefetch_factor": None}
    loader = {f"dataloader_{name}": value for name, value in loader.items()}
    model = dict.fromkeys(("model", "ref_model"), str(home / "model"))
    given = {**loss, **task, **sizes, **batch, **loader, **model, "output_dir": str(home)}
    return SimpleNamespace(**{**given, **changed})


def trainer(cls: Any, upstream: Any, args: Any) -> Any:
    """Make a trainer around the little model, without building or loading anything."""
    made = cls.__new__(cls)
    made.args, made.state = args, SimpleNamespace(iteration=0)
    made.dummy_dpo_trainer = upstream.DummyDPOTrainer(args)
    made._all_reduce_metric = lambda metric: metric
    made.unwrapped_models = [Policy()]
    made.wrapped_models = [Wrapper(Wrapper(made.unwrapped_models[0]))]
    made.plain_collator, made.reference_pairs = collate, {}
    return made
