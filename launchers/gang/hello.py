"""How a rank introduces itself to its gang."""

from __future__ import annotations

import hashlib

from launchers import version
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.gang.protocol import Hello


def hello(settings: Settings, recipe: Recipe) -> Hello:
    """Introduce this rank."""
    both = version.own_digest(settings.launcher_digest) + recipe.digest
    return Hello(
        run=settings.run,
        rank=settings.place.rank,
        nodes=settings.place.nodes,
        digest=hashlib.sha256(both.encode()).hexdigest(),
        pod=settings.pod,
        node=settings.node,
    )
