"""The proposals: what fits a cluster with the fewest changes to the recipe."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from launchers.plan.layout import Layout
from scripts.plan import args
from scripts.plan.args import Args
from scripts.plan.candidates import OPTIMIZERS, Fields, on, recompute
from scripts.plan.search import Found, Search


def nearest(search: Search, count: int) -> list[Found]:
    """Return what fits and changes the fewest flags of the recipe, the fastest first."""
    found: list[Found] = []
    for _, group in groupby(_by_changes(search), key=itemgetter(0)):
        for _, layout, again, (name, fields) in group:
            training = on(search.training, layout, {**again, **fields})
            fitting = search.fitting(name, training)
            found += [fitting] if fitting else []
        if len(found) >= count:
            break
    return sorted(found, key=lambda each: each.speed.step_seconds)[:count]


def _by_changes(search: Search) -> list[tuple[int, Layout, Fields, tuple[str, Fields]]]:
    """List all choices of layout, recomputation and optimizer, those with few changes first.

    The three have no flag in common, so their changes add up.
    """
    own = search.training
    stages = {layout.pp for layout in search.possible}
    recomputes = {pp: _recomputes(search, pp) for pp in stages}
    kept = [on(own, own.layout, fields) for _, fields in OPTIMIZERS]
    optimizers = [_changed(search, args.optimizer_flags(training)) for training in kept]
    counted = [
        (sizes + more + most, layout, again, optimizer)
        for layout in search.possible
        for sizes in [_changed(search, args.layout_flags(on(own, layout, {})))]
        for more, again in recomputes[layout.pp]
        for most, optimizer in zip(optimizers, OPTIMIZERS, strict=True)
    ]
    return sorted(counted, key=itemgetter(0))


def _recomputes(search: Search, stages: int) -> list[tuple[int, Fields]]:
    """Return what may be recomputed, and how many flags it changes."""
    own = search.training
    choices = recompute(search.shape.layers, stages)
    told = [args.recompute_flags(on(own, own.layout, again)) for again in choices]
    return [(_changed(search, flags), again) for flags, again in zip(told, choices, strict=True)]


def _changed(search: Search, wanted: Args) -> int:
    """Return how many flags of the recipe are otherwise."""
    return len(args.changes(search.job.recipe, wanted))
