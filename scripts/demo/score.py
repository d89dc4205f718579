"""Score a checkpoint on held-out pairs: its preference accuracy and reward margin.

No code is shared with the trainer: checkpoints are loaded with transformers alone, and the
log-probabilities are computed here. Accuracy is the share of pairs with log p(chosen) >
log p(rejected), both given the prompt. The margin is DPO's implicit reward, beta * (log-ratio of
chosen - of rejected), against the base model (Rafailov et al. 2023, section 4): 0 for the base.

Usage, in the training environment: python -m scripts.demo.score PAIRS.jsonl BASE EXPORT BETA
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.demo.pairs import Pair, read_jsonl

BATCH = 64

Encoded = tuple[list[int], int]
"""Token ids of a conversation, and the number of those of the prompt."""


def accuracy(chosen: list[float], rejected: list[float]) -> float:
    """Return the share of pairs whose chosen text is strictly more probable.

    >>> accuracy([-1.0, -2.0, -3.0], [-2.0, -2.0, -1.0])
    0.3333333333333333
    """
    return sum(good > bad for good, bad in zip(chosen, rejected, strict=True)) / len(chosen)


def margin(new: Sequence[list[float]], base: Sequence[list[float]]) -> float:
    """Return the mean log-ratio difference without beta; arguments are [chosen, rejected].

    >>> margin([[-1.0], [-4.0]], [[-2.0], [-2.0]])
    3.0
    """
    rows = zip(*new, *base, strict=True)
    return sum(((c - c0) - (r - r0) for c, r, c0, r0 in rows), 0.0) / len(new[0])


def encode(tokenizer: Any, prompt: str, answer: str) -> Encoded:
    """Return a question and its answer, formatted by the chat template."""
    head = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
    )
    before = tokenizer.encode(head, add_special_tokens=False)
    after = tokenizer.encode(answer + tokenizer.eos_token, add_special_tokens=False)
    return before + after, len(before)


def log_probabilities(model: Any, tokenizer: Any, rows: list[Encoded]) -> list[float]:
    """Return log p(answer | prompt) of each row, summed over the answer and its end marker."""
    import torch

    sums = [0.0] * len(rows)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))  # little padding
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        width = max(len(rows[row][0]) for row in batch)
        ids = torch.full((len(batch), width), tokenizer.pad_token_id)
        counted = torch.zeros((len(batch), width), dtype=torch.bool)
        for place, row in enumerate(batch):
            tokens, head = rows[row]
            ids[place, : len(tokens)] = torch.tensor(tokens)
            counted[place, head : len(tokens)] = True
        ids, counted = ids.to(model.device), counted.to(model.device)
        with torch.no_grad():  # padding is on the right: causal attention never sees it
            logits = model(input_ids=ids).logits[:, :-1][counted[:, 1:]]
            values = -torch.nn.functional.cross_entropy(
                logits, ids[:, 1:][counted[:, 1:]], reduction="none"
            )
        parts = values.split(counted.sum(-1).tolist())
        for row, part in zip(batch, parts, strict=True):
            sums[row] = float(part.sum())
    return sums


def judge(folder: Path, pairs: list[Pair]) -> tuple[list[float], list[float]]:
    """Return the log-probabilities of chosen and of rejected answers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    texts = [(pair.prompt, pair.chosen) for pair in pairs]
    texts += [(pair.prompt, pair.rejected) for pair in pairs]
    rows = [encode(tokenizer, prompt, answer) for prompt, answer in texts]
    sums = log_probabilities(model, tokenizer, rows)
    return sums[: len(pairs)], sums[len(pairs) :]


def main() -> None:
    """Print one JSON object for the command line arguments."""
    if len(sys.argv) != 5:
        sys.exit("usage: python -m scripts.demo.score PAIRS.jsonl BASE EXPORT BETA")
    os.environ["HF_HUB_OFFLINE"] = "1"  # both checkpoints are folders
    pairs = read_jsonl(Path(sys.argv[1]))
    base, new = (judge(Path(folder), pairs) for folder in sys.argv[2:4])
    result = {
        "pairs": len(pairs),
        "accuracy_before": accuracy(*base),
        "accuracy_after": accuracy(*new),
        "margin_after": float(sys.argv[4]) * margin(new, base),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
