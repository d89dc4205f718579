"""How many steps a dataset makes."""

from __future__ import annotations

from dataclasses import dataclass

from launchers.arguments import Arguments
from launchers.recipe import Recipe
from launchers.training import Training

FILL = 0.95
"""Share of a pack that is real tokens, an estimate: packs of 8,192 held about 7,700 tokens in the
runs that were measured (tests/gpu)."""


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
        pack = FILL * training.max_length
        return training.micro_batch_size * max(pack, data.tokens if data else 0.0)
    return training.micro_batch_size * data.tokens if data else 0.0


def pairs_per_step(training: Training, tokens: float) -> float:
    """Return the rows of one step: with packing as many as fill the packs.

    ms-swift packs chosen and rejected together up to ``max_length``; a row that is longer has a
    pack of its own (``swift/dataset/packing.py``).
    """
    if not training.packing:
        return float(training.global_batch_size)
    return training.global_batch_size * max(1.0, FILL * training.max_length / tokens)


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
        steps = rows * a.number("num_train_epochs", 1) / pairs_per_step(training, data.tokens)
        return Length(steps=max(1, int(steps)), source=data.source)
    if "train_iters" in recipe.args:
        return Length(steps=a.size("train_iters", 1), source="recipe.args.train_iters")
    return None
