"""Gradients of each optimizer step of ms-swift's DPO; runs in the training Python.

``window_probe FOLDER``: trains on the demo's sources in the folder with a learning rate of 0, so
that all runs have the same weights, and prints JSON by run. For each step: the loss, the mean loss
of its microbatches, and the greatest difference of its gradients from the mean of those of its
microbatches, relative to the greatest gradient. The loss and gradients of single microbatches come
from a run with a step for each.
"""

import json
import sys
from pathlib import Path
from typing import Any

WINDOW = 3
"""Microbatches of a step."""
MICROBATCHES = 5
"""Microbatches of an epoch: the last window has two."""

FLAGS = """
--rlhf_type dpo --model_type qwen3 --template qwen3_nothinking --tuner_type full --rpo_alpha 1
--torch_dtype float32 --attn_impl sdpa --use_cpu true --max_length 256 --num_train_epochs 1
--per_device_train_batch_size 2 --learning_rate 0 --max_grad_norm 0 --logging_steps 1
--split_dataset_ratio 0 --save_strategy no --report_to none --add_version false --check_model false
--dataset_num_proc 1 --callbacks note
"""


def steps(folder: Path, window: int) -> list[tuple[float, dict[str, Any]]]:
    from swift.callbacks.base import TrainerCallback
    from swift.callbacks.mapping import callbacks_map
    from swift.pipelines.train.rlhf import SwiftRLHF

    found: list[tuple[float, dict[str, Any]]] = []
    gradients: list[dict[str, Any]] = []

    class Note(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, *_: Any, model: Any, **__: Any) -> None:
            gradients.append({n: p.grad.clone() for n, p in model.named_parameters()})

        def on_log(self, *_: Any, logs: Any, **__: Any) -> None:
            if "loss" in logs:
                found.append((logs["loss"], gradients[-1]))

    callbacks_map["note"] = Note
    places = {
        "model": folder / "model",
        "dataset": folder / "pairs.jsonl",
        "output_dir": folder / "out",
        "external_plugins": Path("scripts/demo/docstring_pairs.py").resolve(),
    }
    words = [str(word) for name, path in places.items() for word in (f"--{name}", path)]
    SwiftRLHF([*FLAGS.split(), "--gradient_accumulation_steps", str(window), *words]).main()
    return found


def compare(run: list[tuple[float, dict[str, Any]]], singles: list[Any]) -> list[list[float]]:
    """Return loss, expected loss and difference of each step."""
    found = []
    for number, (loss, gradients) in enumerate(run):
        parts = singles[number * WINDOW :][:WINDOW]
        difference, largest = 0.0, 0.0
        for name, gradient in gradients.items():
            right = sum(part[1][name] for part in parts) / len(parts)
            difference = max(difference, float((gradient - right).abs().max()))
            largest = max(largest, float(right.abs().max()))
        found.append([loss, sum(part[0] for part in parts) / len(parts), difference / largest])
    return found


def main() -> None:
    from launchers.training import loading

    folder = Path(sys.argv[1])
    singles = steps(folder, 1)
    found = {"upstream": compare(steps(folder, WINDOW), singles)}
    loading.install("partial_window")
    found["ours"] = compare(steps(folder, WINDOW), singles)
    print("PROBE " + json.dumps(found))


if __name__ == "__main__":
    main()
