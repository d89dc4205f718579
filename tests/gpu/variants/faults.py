"""Effect of rounding and of faults on the model of ``tests.gpu.variants``, on CPU.

``python -m tests.gpu.variants.faults TOKENIZER`` processes texts in transformers' own
implementation and prints the change in a text's log-probability per token: the largest of 16 texts,
and the rms. Rounding: bf16 with two implementations of attention, and bf16 compared with float32.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.model import random_model
from tests.gpu.variants import data

TEXTS = 16


def main() -> None:
    """Print one line per fault."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_grad_enabled(False)
    tokenizer = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model_config, gains = data.model_config(tokenizer), data.GAINS
        random_model.write(folder, model_config, tokenizer, gains=gains)
        data.write(folder / "pairs.jsonl", tokenizer)
        reader: Any = AutoTokenizer.from_pretrained(tokenizer)
        rows = answers(folder / "pairs.jsonl")
        texts = [reader(row, return_tensors="pt")["input_ids"] for row in rows]

        def model(dtype: Any, attention: str) -> Any:
            return AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation=attention
            )

        eager, fused = (
            [costs(model(torch.bfloat16, a), t) for t in texts] for a in ("eager", "sdpa")
        )
        exact = model(torch.float32, "sdpa")
        right = [costs(exact, text) for text in texts]
        compare("rounding: two attentions in bf16", eager, fused)
        compare("rounding: bf16 and float32", fused, right)
        for name, wrong in faults(exact, texts).items():
            compare(name, wrong(), right)


def answers(pairs: Path) -> list[str]:
    """Return the first chosen answers."""
    lines = pairs.read_text(encoding="utf-8").splitlines()[:TEXTS]
    return [json.loads(line)["messages"][1]["content"] for line in lines]


def costs(model: Any, ids: Any, begin: int = 0, **given: Any) -> Any:
    """Return the log-probability of each token from ``begin`` on."""
    import torch

    logits = model(input_ids=ids, use_cache=False, **given).logits[0, :-1].float()
    return torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None])[:, 0][begin:]


def faults(model: Any, texts: list[Any]) -> dict[str, Callable[[], list[Any]]]:
    """Return the faulty computations; the last one changes the model permanently."""
    import torch

    def leak() -> list[Any]:
        pairs = zip(texts[-1:] + texts[:-1], texts, strict=True)
        return [costs(model, torch.cat(ab, 1), begin=ab[0].shape[1]) for ab in pairs]

    def shifted() -> list[Any]:
        places = (torch.arange(text.shape[1]) for text in texts)
        moved = [place + (place > len(place) // 2) for place in places]
        return [costs(model, t, position_ids=p[None]) for t, p in zip(texts, moved, strict=True)]

    def fewer() -> list[Any]:
        for layer in model.model.layers:
            layer.mlp.gate.top_k -= 1
        wrong = [costs(model, text) for text in texts]
        for layer in model.model.layers:
            layer.mlp.gate.top_k += 1
        return wrong

    def dropped() -> list[Any]:
        model.model.layers[0].mlp.register_forward_hook(_drop)
        return [costs(model, text) for text in texts]

    return {
        "a text sees the one before it in its pack": leak,
        "positions are off by one from the middle on": shifted,
        "seven of a token's eight experts": fewer,
        "one layer drops 5 % of the tokens": dropped,
    }


def _drop(module: Any, given: Any, made: Any) -> Any:
    out = (made[0] if isinstance(made, tuple) else made).clone()
    out[:, ::20] = 0
    return (out, *made[1:]) if isinstance(made, tuple) else out


def compare(name: str, one: list[Any], other: list[Any]) -> None:
    """Print the differences of the texts' means."""
    means = [float((a - b).mean().abs()) for a, b in zip(one, other, strict=True)]
    rms = (sum(mean**2 for mean in means) / len(means)) ** 0.5
    print(f"{max(means):.1e} rms {rms:.1e}  {name}", flush=True)


if __name__ == "__main__":
    main()
