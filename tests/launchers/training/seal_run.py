"""Trains three steps with transformers' own trainer; prints what was sealed when, as JSON.

``.tools/train/bin/python -m tests.launchers.training.seal_run FOLDER LIMIT [END]`` runs in the
training Python. END: after the second step a callback of the user ends training (``early``) or the
process, with exit code 0 (``exit``).
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from launchers.storage import checkpoint
from launchers.training import seal_transformers

STEPS = 3


class Linear(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.inner(x) - labels).square().mean()}


class End(TrainerCallback):  # type: ignore[misc]
    """A user's callback that ends training, or the process, after the second step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2 and sys.argv[3:] == ["exit"]:
            sys.exit(0)
        if state.global_step == 2 and sys.argv[3:] == ["early"]:
            control.should_training_stop = True


def main() -> None:
    """Train, and look before each seal which older checkpoint a kill would leave."""
    folder, limit = Path(sys.argv[1]), int(sys.argv[2])
    left: list[int] = []

    def seal(target: Path, step: int) -> Path | None:
        found = checkpoint.newest(folder)
        left.append(found.step if found else 0)
        return checkpoint.seal(target, step)

    vars(seal_transformers)["seal"] = seal
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        save_steps=1,
        save_total_limit=limit,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    rows: Any = [{"x": torch.ones(2), "labels": torch.ones(1)}] * 8
    trainer = Trainer(model=Linear(), args=arguments, train_dataset=rows)
    seal_transformers.install()
    trainer.add_callback(seal_transformers.SealCallback(arguments, trainer))
    trainer.add_callback(End())
    trainer.train()
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    print(json.dumps({"left": left, "kept": kept}))


if __name__ == "__main__":
    main()
