"""Fake torchrun and score of the tests of ``tests.bench.learning``.

``fake_training.py train NAME STEPS MODE FOLDER`` writes the files of probe and trainer of two
ranks, ``fake_training.py score NAME MODE OUT`` the held-out figures. Both vary a little with NAME.
MODE ``dies`` ends the training with 1; ``apart`` has a smaller margin; ``loads`` has loaded one of
the launcher's modules.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def train(name: str, steps: int, mode: str, folder: Path) -> None:
    if mode == "dies":
        print("torch.OutOfMemoryError: CUDA out of memory")
        sys.exit(1)
    chance = random.Random(name)
    counted = {"tokens": 2000, "squares": 90_000, "sequences": 44}
    for rank in range(2):
        who: dict[str, Any] = {"rank": rank, "world": 2, "tp": 0, "pp": 0, "cp": 0}
        who |= {"launchers": ["launchers.training.loading"] if mode == "loads" else []}
        seen = [{"step": step + 1, "seconds": 0.1, "time": 0.0, **counted} for step in range(steps)]
        lines(folder / f"rank-{rank}.jsonl", [who, *seen])
    log = [
        {"loss": 8.3 - 0.1 * step, "grad_norm": 1.0 + chance.uniform(-0.001, 0.001)}
        for step in range(steps)
    ]
    lines(folder / "out" / "logging.jsonl", log)


def score(name: str, mode: str, out: Path) -> None:
    chance = random.Random(name)
    margin = (2.0 if mode == "apart" else 3.0) + chance.uniform(-0.01, 0.01)
    after = {"accuracy": 0.98, "loss": 0.1, "margin": margin, "chosen": -90.0}
    out.write_text(json.dumps({"before": {**after, "accuracy": 0.5}, "after": after}))


def main() -> None:
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
    else:
        score(sys.argv[2], sys.argv[3], Path(sys.argv[4]))


if __name__ == "__main__":
    main()
