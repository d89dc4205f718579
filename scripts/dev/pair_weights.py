"""Measure what equal weights of packed pairs do to the demo's model, against weights by pack.

Trains the demo's model on the demo's pairs (``scripts/demo``) in ms-swift's own packs, once with
each value of ``recipe.pairWeights``, and scores it on the held-out pairs. Both runs of a seed have
the same weights at the start, the same packs and the same order of packs. Texts attend to
themselves alone, as in a pack, so a step is computed from padded rows and only the weights of the
losses differ:

- ``pack`` (ms-swift 4.4.1 ``swift/megatron/trainers/dpo_trainer.py``): the mean over the packs of a
  step of ``mean over the pack's pairs + rpo_alpha * mean over the pack's chosen tokens``.
- ``equal``: the mean over the step's pairs of ``the pair's loss + rpo_alpha * the mean over its own
  chosen tokens``.

Usage, in the training environment:
    python -m scripts.dev.pair_weights [--seeds N] [--rpo-alpha ALPHA] FILE.json
FILE.json is written after each run; runs that it already holds are not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scripts.demo.model import MODEL_CONFIG, texts, train_tokenizer
from scripts.demo.pairs import Pair, collect, split
from scripts.demo.score import Encoded, accuracy, encode, log_probabilities
from scripts.dev.results import text

WEIGHTS = ("pack", "equal")
FIGURES = ("accuracy", "reward_accuracy", "loss")
PACKAGES = ("ms-swift", "transformers", "torch")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of all runs."""

    packing_length: int = 1024
    packs_per_step: int = 4
    steps: int = 60
    scored_at: tuple[int, ...] = (10, 20, 40, 60)
    learning_rate: float = 5e-4
    warmup: int = 5
    beta: float = 0.3
    rpo_alphas: tuple[float, ...] = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The encoded texts of some pairs."""

    chosen: list[Encoded]
    rejected: list[Encoded]

    def lengths(self) -> list[list[int]]:
        """Return the lengths of chosen and rejected of each pair, in tokens."""
        both = zip(self.chosen, self.rejected, strict=True)
        return [[len(a), len(b)] for (a, _), (b, _) in both]

    def both(self) -> list[Encoded]:
        """Return all chosen texts, then all rejected ones."""
        return self.chosen + self.rejected

    def rows(self, pairs: Sequence[int]) -> list[Encoded]:
        """Return the chosen texts of some pairs, then the rejected ones."""
        return [self.chosen[p] for p in pairs] + [self.rejected[p] for p in pairs]


def encoded(pairs: list[Pair], tokenizer: Any) -> Texts:
    """Encode pairs with the demo's chat template."""
    return Texts(
        chosen=[encode(tokenizer, pair.prompt, pair.chosen) for pair in pairs],
        rejected=[encode(tokenizer, pair.prompt, pair.rejected) for pair in pairs],
    )


def packed(lengths: list[list[int]], packing_length: int) -> list[list[int]]:
    """Return the pairs of each pack as ms-swift makes them (``swift/dataset/packing.py``)."""
    from swift.dataset import PackingDataset

    rows = type("Rows", (), {"__len__": lambda _: len(lengths), "__getitem__": lambda *_: lengths})
    template = SimpleNamespace(max_length=packing_length)
    made: list[list[int]] = PackingDataset(template, rows()).packed_idx
    return made


def new_model(tokenizer: Any, seed: int) -> Any:
    """Return the demo's model with the random weights of a seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), dtype="float32", **MODEL_CONFIG))


def sums(model: Any, rows: list[Encoded]) -> tuple[Any, Any]:
    """Return each text's summed log-probability and its number of answer tokens, [texts]."""
    import torch

    width = max(len(tokens) for tokens, _ in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    counted = torch.zeros((len(rows), width), dtype=torch.bool)
    for place, (tokens, head) in enumerate(rows):
        ids[place, : len(tokens)] = torch.tensor(tokens)
        counted[place, head : len(tokens)] = True
    logits = model(input_ids=ids).logits[:, :-1]  # padding is on the right of a causal model
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    ).view(len(rows), -1)
    return -(losses * counted[:, 1:]).sum(-1), counted.sum(-1)


def step_loss(
    dpo: Any, nll: Any, tokens: Any, sizes: Sequence[int], weights: str, alpha: float
) -> Any:
    """Return the loss of a step.

    Args:
        dpo: DPO's loss of each pair, [pairs], pack after pack.
        nll: the negative log-likelihood of each chosen text, summed over its tokens, [pairs].
        tokens: the number of those tokens, [pairs].
        sizes: the pairs of each pack.
        weights: ``pack`` or ``equal``.
        alpha: ``rpo_alpha``.
    """
    if weights == "equal":
        return (dpo + alpha * nll / tokens).mean()
    parts = zip(*(each.split(list(sizes)) for each in (dpo, nll, tokens)), strict=True)
    packs = [loss.mean() + alpha * part.sum() / count.sum() for loss, part, count in parts]
    return sum(packs) / len(packs)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Settings that all runs share."""

    train: Texts
    held_out: Texts
    packs: list[list[int]]
    tokenizer: Any


def train(data: Data, use: Settings, *, seed: int, weights: str, rpo_alpha: float) -> list[Any]:
    """Train one model; return its score at each step of ``scored_at``."""
    import torch

    model, reference = (new_model(data.tokenizer, seed) for _ in range(2))
    held = log_probabilities(reference, data.tokenizer, data.held_out.both())
    order = torch.randperm(len(data.packs), generator=torch.Generator().manual_seed(seed)).tolist()
    optimizer = torch.optim.AdamW(model.parameters(), lr=use.learning_rate, weight_decay=0.0)
    scores = []
    for step in range(use.steps):
        for group in optimizer.param_groups:
            group["lr"] = use.learning_rate * schedule(step, use)
        packs = [data.packs[p] for p in order[step * use.packs_per_step :][: use.packs_per_step]]
        rows = data.train.rows([pair for pack in packs for pair in pack])
        with torch.no_grad():
            before, _ = sums(reference, rows)
        after, tokens = sums(model, rows)
        good, bad = (after - before).chunk(2)
        dpo = -torch.nn.functional.logsigmoid(use.beta * (good - bad))
        nll, counts = -after.chunk(2)[0], tokens.chunk(2)[0]
        loss = step_loss(dpo, nll, counts, [len(pack) for pack in packs], weights, rpo_alpha)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step + 1 in use.scored_at:
            scores.append({"step": step + 1, **score(model, data, held, use.beta)})
    return scores


def schedule(step: int, use: Settings) -> float:
    """Return the fraction of the learning rate: linear warm-up, then a cosine to zero."""
    if step < use.warmup:
        return (step + 1) / use.warmup
    return 0.5 * (1 + math.cos(math.pi * (step - use.warmup) / (use.steps - use.warmup)))


def score(model: Any, data: Data, before: list[float], beta: float) -> dict[str, float]:
    """Return the held-out accuracies by log-probability and by reward, and the held-out loss."""
    after = log_probabilities(model, data.tokenizer, data.held_out.both())
    half = len(after) // 2
    ratios = [new - old for new, old in zip(after, before, strict=True)]
    margins = [beta * (c - r) for c, r in zip(ratios[:half], ratios[half:], strict=True)]
    return {
        "accuracy": accuracy(after[:half], after[half:]),
        "reward_accuracy": sum(margin > 0 for margin in margins) / half,
        "loss": statistics.fmean(math.log1p(math.exp(-margin)) for margin in margins),
    }


def compared(runs: list[dict[str, Any]], use: Settings) -> list[dict[str, Any]]:
    """Compare both weights over the seeds that have both, by ``rpo_alpha``, step and figure."""
    found = []
    for alpha, place in itertools.product(use.rpo_alphas, range(len(use.scored_at))):
        scores = {
            weights: {
                run["seed"]: run["scores"][place]
                for run in runs
                if (run["rpo_alpha"], run["weights"]) == (alpha, weights)
            }
            for weights in WEIGHTS
        }
        seeds = sorted(set(scores["pack"]) & set(scores["equal"]))
        for figure in FIGURES if len(seeds) > 1 else ():
            both = {name: [seen[seed][figure] for seed in seeds] for name, seen in scores.items()}
            gains = [e - p for e, p in zip(both["equal"], both["pack"], strict=True)]
            found.append(
                {
                    "rpo_alpha": alpha,
                    "step": use.scored_at[place],
                    "figure": figure,
                    "seeds": len(seeds),
                    **{name: round(statistics.fmean(seen), 5) for name, seen in both.items()},
                    "equal_minus_pack": round(statistics.fmean(gains), 5),
                    "standard_error": round(statistics.stdev(gains) / math.sqrt(len(gains)), 5),
                    "p": round(sign_flip(gains), 5),
                }
            )
    return found


def sign_flip(gains: Sequence[float]) -> float:
    """Return the two-sided p-value of the exact sign-flip test of paired differences.

    >>> sign_flip([1.0, 2.0, 3.0])
    0.25
    """
    seen = abs(sum(gains)) - 1e-12
    flips = list(itertools.product((1, -1), repeat=len(gains)))
    sums = (sum(sign * gain for sign, gain in zip(flip, gains, strict=True)) for flip in flips)
    return sum(abs(each) >= seen for each in sums) / len(flips)


def spread(packs: list[list[int]], lengths: list[list[int]]) -> dict[str, Any]:
    """Describe the packs: pairs per pack, and a pair's weight relative to equal weights."""
    sizes = [len(pack) for pack in packs]
    equal = sum(sizes) / len(sizes)
    weights = [equal / size for size in sizes for _ in range(size)]
    tokens = sorted(map(sum, lengths))
    return {
        "pairs": sum(sizes),
        "packs": len(sizes),
        "pairs_per_pack": [min(sizes), statistics.median(sizes), max(sizes)],
        "weight_max_over_min": round(max(weights) / min(weights), 3),
        "weight_cv": round(statistics.pstdev(weights) / statistics.fmean(weights), 4),
        "tokens_per_pair": [tokens[0], tokens[len(tokens) // 2], tokens[-1]],
    }


def load(use: Settings) -> Data:
    """Collect, encode and pack the demo's pairs."""
    some, others = split(collect())
    tokenizer = train_tokenizer(texts(some))
    both = encoded(some, tokenizer), encoded(others, tokenizer)
    packs = packed(both[0].lengths(), use.packing_length)
    return Data(train=both[0], held_out=both[1], packs=packs, tokenizer=tokenizer)


def document(runs: list[dict[str, Any]], data: Data, use: Settings, commands: list[str]) -> Any:
    """Return the result as JSON."""
    return {
        "commands": commands,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "settings": asdict(use),
        "data": spread(data.packs, data.train.lengths()) | {"held_out": len(data.held_out.chosen)},
        "compared": compared(runs, use),
        "runs": runs,
    }


def main() -> None:
    """Train the models that FILE.json lacks and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rpo-alpha", type=float, default=0.0, choices=Settings.rpo_alphas)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    use, file, alpha = Settings(), given.file, given.rpo_alpha
    data = load(use)
    kept: dict[str, list[Any]] = {"runs": [], "commands": []}
    if file.exists():
        kept |= json.loads(file.read_text(encoding="utf-8"))
    runs, command = kept["runs"], f"--seeds {given.seeds} --rpo-alpha {alpha:g} {file}"
    commands = [*kept["commands"], f"python -m scripts.dev.pair_weights {command}"]
    for seed, weights in itertools.product(range(given.seeds), WEIGHTS):
        kind = {"seed": seed, "rpo_alpha": alpha, "weights": weights}
        if not any(run.items() >= kind.items() for run in runs):
            runs.append({**kind, "scores": train(data, use, **kind)})
            print(json.dumps(runs[-1]), flush=True)
            file.write_text(text(document(runs, data, use, commands)), encoding="utf-8")
    file.write_text(text(document(runs, data, use, commands)), encoding="utf-8")


if __name__ == "__main__":
    main()
