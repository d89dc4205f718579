"""Everything that a plan is made of: what runs, where, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.plan.model_config import Shape
from launchers.plan.run_length import Data
from launchers.plan.step_time import Link

FLOOR = 0.85
"""Part of a network's expected GB/s below which the preflight fails
(``chart/templates/_network_settings.tpl``)."""
ADAPTER = 20.0
"""GB/s of a node when nobody tells: an all-reduce over one adapter of 200 Gb/s reaches 20 to 23."""
SOCKETS = 2.5
"""The same for TCP: 25 GbE reaches 2 to 3, 100 GbE 6 to 11 (estimates)."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that a plan is made of."""

    run: str
    recipe: Recipe
    nodes: int
    gpus_per_node: int
    skips: frozenset[str] = frozenset()
    card: str = ""
    """A name of ``cards.CARDS``; empty when it is not known."""
    link: Link
    """Between the nodes."""
    assumes_link: bool = False
    """Whether nobody told the network's speed."""
    shape: Shape | None = None
    shape_source: str = ""
    """Where the model's sizes come from, or why they are not known."""
    data: Data | None = None


def job_of(
    settings: Settings,
    recipe: Recipe,
    env: Mapping[str, str],
    *,
    shape: Shape | None,
    shape_source: str,
    data: Data | None = None,
) -> Job:
    """Describe a run from what its pods are told."""
    return Job(
        run=settings.run,
        recipe=recipe,
        nodes=settings.place.nodes,
        gpus_per_node=settings.gpus_per_node,
        skips=settings.skips,
        card=env.get("GPU_MODEL", ""),
        link=link_of(env),
        assumes_link=not env.get("NETWORK_FLOOR_GBS"),
        shape=shape,
        shape_source=shape_source,
        data=data,
    )


def link_of(env: Mapping[str, str]) -> Link:
    """Return what connects the nodes, as the chart tells the gang's container.

    It tells the GB/s below which the preflight fails, where they are known; else they are assumed.
    """
    name = env.get("NETWORK_TRANSPORT", "") or f"NET/{env.get('NCCL_NET', 'Socket')}"
    floor = float(env.get("NETWORK_FLOOR_GBS", "") or 0)
    if floor:
        return Link(name=name, gbs=round(floor / FLOOR, 1))
    return Link(name=name, gbs=SOCKETS if name == "NET/Socket" else ADAPTER)
