"""Choices of a fault's seed: the rank that it strikes, and the moment after training has begun.

``E2E_SEED`` is the seed of ``python -m tests.faults --level cluster``. Without it, as in ``make
e2e``, a fault strikes rank 1 at once.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "E2E_SEED"
LATEST_SECONDS = 12.0
"""Longer than the period of the liveness probe, of keepalives and of heartbeats."""
CHOSEN: list[str] = []
"""Choices that tests have used, for the summary of the session."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    rank: int = 1
    seconds: float = 0.0
    """From the first training process to the fault."""

    @classmethod
    def of(cls, name: str, env: Mapping[str, str]) -> Chance:
        """Choose by the seed in the environment.

        >>> Chance.of("test_x", {})
        Chance(rank=1, seconds=0.0)
        >>> Chance.of("test_x", {VARIABLE: "2"}) == Chance.of("test_x", {VARIABLE: "2"})
        True
        """
        if not env.get(VARIABLE):
            return cls()
        chance = random.Random(f"{name} {env[VARIABLE]}")
        return cls(rank=chance.randrange(2), seconds=round(chance.uniform(0, LATEST_SECONDS), 1))

    @classmethod
    def of_test(cls, name: str) -> Chance:
        """Choose for a test that uses the choices; note them."""
        made = cls.of(name, os.environ)
        CHOSEN.append(f"rank {made.rank}, {made.seconds} s after training has begun")
        return made

    def wait(self) -> None:
        """Wait until the moment of the fault."""
        time.sleep(self.seconds)
