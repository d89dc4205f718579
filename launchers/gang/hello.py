"""How a rank introduces itself to its gang."""

from __future__ import annotations

import hashlib
from pathlib import Path

from launchers import PACKAGE
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.gang.protocol import Hello


def launcher_digest(package: Path) -> str:
    """Return the SHA-256 of this package's sources."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def hello(settings: Settings, recipe: Recipe) -> Hello:
    """Introduce this rank."""
    both = launcher_digest(PACKAGE) + recipe.digest
    return Hello(
        run=settings.run,
        rank=settings.place.rank,
        nodes=settings.place.nodes,
        digest=hashlib.sha256(both.encode()).hexdigest(),
        pod=settings.pod,
        node=settings.node,
    )
