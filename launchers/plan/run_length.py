"""What the data tell of a run: the tokens of a microbatch, and the number of steps."""

from __future__ import annotations

from dataclasses import dataclass

from launchers.config.recipe import Recipe
from launchers.plan.arguments import Arguments
from launchers.plan.duration import PACKED, steps
from launchers.plan.training_job import Training

TOKENS = 2048
"""Tokens of a pair when nobody says: chosen and rejected of a thousand each."""
SPREAD = 1.5
"""sum(L^2) / sum(L) of the texts over their mean when nobody says: a coefficient of variation of
0.7, an estimate."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """A dataset, as far as the length of a run depends on it."""

    pairs: int
    """Rows; in DPO each is a chosen and a rejected text."""
    tokens: float
    """Mean tokens of a row, all its texts together."""
    source: str
    """Who says so, in words."""


@dataclass(frozen=True, kw_only=True)
class Length:
    """A run from its first to its last step."""

    steps: int
    source: str


def s_eff(training: Training, data: Data | None) -> float:
    """Return sum(L^2) / sum(L) of the texts, on which attention's arithmetic depends."""
    texts = 2 if training.pairs else 1
    mean = (data.tokens if data else TOKENS) / texts
    return min(SPREAD * mean, float(training.max_length or SPREAD * mean))


def microbatch_tokens(training: Training, data: Data | None) -> float:
    """Return the real tokens of a microbatch on average; 0 when nobody can say."""
    if training.packing:
        pack = PACKED * (training.packing_length or training.max_length)
        return training.micro_batch_size * max(pack, data.tokens if data else 0.0)
    return training.micro_batch_size * data.tokens if data else 0.0


def of(recipe: Recipe, training: Training, data: Data | None) -> Length | None:
    """Return the run's steps; None when neither the recipe nor the data tell them.

    ``swift/megatron/arguments/megatron_args.py`` ``init_iters``: epochs win over ``train_iters``.

    Raises:
        LaunchError: CONFIG, naming the flag that is no number.
    """
    a = Arguments(args=recipe.args)
    if "num_train_epochs" in recipe.args:
        if data is None:
            return None
        rows = data.pairs * (1 - a.number("split_dataset_ratio", 0.0))
        epochs = a.number("num_train_epochs", 1)
        count = steps(training, samples=rows, tokens=data.tokens, epochs=epochs)
        return Length(steps=count, source=data.source)
    if "train_iters" in recipe.args:
        return Length(steps=a.size("train_iters", 1), source="recipe.args.train_iters")
    return None
