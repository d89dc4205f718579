"""Load balance of a random model's routers, on CPU: ``python3 -m tests.bench.model.routing``.

A random model processes the pairs of ``pairs.py`` in transformers' own implementation. Prints for
each layer: the load-balancing loss as megatron-core logs it
(``megatron/core/transformer/moe/moe_utils.py``, ``switch_load_balancing_loss_func``: 1 is balanced)
and the load of the busiest expert over the mean.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.model import pairs, random_model


def balance(logits: Any, topk: int) -> tuple[float, float]:
    """Return the load-balancing loss and the ratio of the busiest expert's load to the mean.

    Args:
        logits: of a router, shape (tokens, experts).
        topk: experts per token.
    """
    import torch

    tokens, experts = logits.shape
    probabilities = torch.softmax(logits.float(), dim=-1)
    chosen = probabilities.topk(topk, dim=-1).indices
    load = torch.bincount(chosen.flatten(), minlength=experts).float()
    loss = experts / (topk * tokens**2) * (load * probabilities.sum(0)).sum()
    return float(loss), float(load.max() / load.mean())


def measure(model: Path, tokenizer: Path, tokens: int) -> list[tuple[float, float]]:
    """Return each layer's balance over the given number of tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_grad_enabled(False)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    reader: Any = AutoTokenizer.from_pretrained(tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "pairs.jsonl"
        pairs.write(file, tokenizer, max(2, tokens // 400))
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    seen: list[list[Any]] = []
    count = 0
    for row in rows:
        ids = reader.apply_chat_template(row["messages"], return_tensors="pt", return_dict=True)
        answer = network(input_ids=ids["input_ids"], output_router_logits=True, use_cache=False)
        seen.append(list(answer.router_logits))
        count += ids["input_ids"].shape[1]
        if count >= tokens:
            break
    topk = network.config.num_experts_per_tok
    return [balance(torch.cat(list(layer)), topk) for layer in zip(*seen, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a model, measure it and print one line per layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--expert", type=int, default=96, help="width of an expert")
    parser.add_argument("--tokens", type=int, default=4000)
    options = parser.parse_args(arguments)
    model_config = random_model.Config(
        num_hidden_layers=options.layers,
        hidden_size=options.hidden,
        moe_intermediate_size=options.expert,
        vocab_size=4096,
    )
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch)
        random_model.write(model, model_config, options.tokenizer)
        for layer, (loss, busiest) in enumerate(measure(model, options.tokenizer, options.tokens)):
            print(f"layer={layer} loss={loss:.4f} busiest={busiest:.2f}", flush=True)


if __name__ == "__main__":
    main()
