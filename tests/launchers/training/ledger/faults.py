"""The ledger's writer among kills, in the training Python: prints the summary as JSON.

``faults SEED COUNT FOLDER``. A stand-in of a trainer draws shuffled pairs, saves at random steps
and is killed ``COUNT`` times: between steps, and before, within and after each change of a file.
"""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from launchers.training.ledger import parts
from launchers.training.ledger.parts import REAL, Parts

PAIRS, BATCH = 40, 4
STEPS_OF_EPOCH = PAIRS // BATCH


class KilledError(BaseException):
    """A kill, which nothing catches."""


class Trainer:
    """A run: its newest complete checkpoint, and the kills that are left."""

    def __init__(self, seed: int, kills: int, home: Path) -> None:
        self.chance, self.kills, self.home = random.Random(seed), kills, home
        self.sealed = self.attempt = 0

    def may_die(self) -> None:
        if self.kills and self.chance.random() < 0.2:
            self.kills -= 1
            raise KilledError

    def dying(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Path, *given: Any, **named: Any) -> Any:
            self.may_die()
            try:
                self.may_die()
            except KilledError:
                path.with_name(f".{path.name}.partial").write_bytes(b"PAR1")
                raise
            change(path, *given, **named)
            self.may_die()

        return changed

    def run(self, steps: int) -> None:
        while True:
            self.attempt += 1
            try:
                return self.train(steps)
            except KilledError:
                continue

    def train(self, steps: int) -> None:
        ledger, kept = Parts(self.home, self.sealed), []
        ledger.cut()
        for step in range(self.sealed + 1, steps + 1):
            self.may_die()
            kept += self.drawn(step)
            if step == steps or self.chance.random() < 0.25:
                ledger.write(self.columns(kept), ["a.jsonl", "b.jsonl"], PAIRS)
                kept = []
                self.may_die()
                self.sealed = step

    def drawn(self, step: int) -> list[tuple[int, int, int]]:
        """Return the pairs of a step: its epoch has an order of its own."""
        epoch, at = divmod(step - 1, STEPS_OF_EPOCH)
        order = random.Random(epoch).sample(range(PAIRS), PAIRS)
        return [(step, epoch + 1, pair) for pair in order[at * BATCH : (at + 1) * BATCH]]

    def columns(self, kept: list[tuple[int, int, int]]) -> dict[str, Any]:
        step, epoch, pair = map(np.array, zip(*kept, strict=True))
        zeros = dict.fromkeys(REAL, np.zeros(len(step)))
        rows = {"row": pair // 2 + 1, "file": pair % 2, "pack": np.full(len(step), -1)}
        margin = {"margin": np.full(len(step), float(self.attempt))}
        return {**zeros, "step": step, "epoch": epoch, "pair": pair, **rows, **margin}


def main() -> None:
    seed, kills, home = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    trainer = Trainer(seed, kills, home)
    module: Any = parts
    module.replace = trainer.dying(module.replace)
    unlink: Any = Path.unlink
    Path.unlink = trainer.dying(unlink)  # type: ignore[method-assign]
    steps = 0
    while trainer.kills:
        steps += STEPS_OF_EPOCH
        trainer.run(steps)
    found = json.loads((home / parts.FOLDER / parts.SUMMARY).read_text())
    columns, _ = parts.read(home / parts.FOLDER)
    order = np.lexsort((columns["step"],))
    attempts = columns["margin"][order]
    print(json.dumps({**found, "steps": steps, "ascends": bool((np.diff(attempts) >= 0).all())}))


if __name__ == "__main__":
    main()
