"""Dealing packs out, with and without: ``python3 -m tests.gpu.packing TOKENIZER RESULTS``.

Trains 8 layers of the real widths on all GPUs of this host, on pairs of a heavy-tailed length, in
three runs of the same data: ms-swift alone; dealt out and tokenised for the first time; the same
again. Losses must agree (a step has the same pairs; they are summed in another order), and the
third run must not tokenise. Writes RESULTS/packing-runs.json, the plugin packing.json; 4 minutes.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.gpu import random_model, sweep
from tests.gpu.visit import host

STEPS, BATCH, PAIRS = 16, 32, 6000
WORDS = ("return", "value", "list", "string", "number", "name", "of", "the", "file", "a")
OURS = ["launchers/swift_tokens.py", "launchers/swift_packing.py"]
CLOSE = 2e-3
"""Relative difference of losses, as between layouts."""


def write_pairs(path: Path) -> None:
    """Write pairs of 200 to 8,192 tokens together, a word a token or so."""
    chance = random.Random(7)
    with path.open("w", encoding="utf-8") as stream:
        written = 0
        while written < PAIRS:
            both = int(chance.lognormvariate(math.log(1100), 1.15))
            if not 200 <= both <= 8100:
                continue
            chosen = int(both * chance.uniform(0.4, 0.6)) - 25
            texts = [" ".join(chance.choices(WORDS, k=n)) for n in (chosen, both - chosen - 50)]
            turns = [{"role": "user", "content": "write"}]
            turns.append({"role": "assistant", "content": texts[0]})
            row = {"messages": turns, "rejected_response": texts[1]}
            stream.write(json.dumps(row) + "\n")
            written += 1


def main() -> None:
    """Run the three, and compare."""
    tokenizer, results = Path(sys.argv[1]), Path(sys.argv[2])
    plan = yaml.safe_load((sweep.ROOT / "tests/gpu/layouts.yaml").read_text(encoding="utf-8"))
    home = sweep.HOST / "ws" / "runs" / "packing"
    for folder in (results, home):
        folder.mkdir(parents=True, exist_ok=True)
    model, data = sweep.HOST / "model", sweep.HOST / "heavy.jsonl"
    random_model.write(model, random_model.Shape(num_hidden_layers=plan["layers"]), tokenizer)
    write_pairs(data)
    os.environ |= {"TRAINING_HOME": str(home), "TRAINING_ATTEMPT": str(results)}
    sizes = {"global_batch_size": BATCH, "train_iters": STEPS, "logging_steps": 1}
    gpus = len(host()["gpus"])
    runs: dict[str, Any] = {}
    for name, plugins in {"upstream": [], "first": OURS, "again": OURS}.items():
        flags = {**plan["base"], **sizes, "plugins": plugins}
        runs[name] = sweep.run(f"packing-{name}", flags, model, data, gpus)
        runs[name]["median_s"] = _median(runs[name])
        print(name, runs[name]["exit"], runs[name]["median_s"], runs[name]["wall_s"], flush=True)
        _write(results, {**host(), "sizes": sizes, "runs": runs})
    _judge(runs, (sweep.HOST / "packing-again" / "log").read_text(errors="replace"))


def _median(run: dict[str, Any]) -> float | None:
    """Return the median step of rank 0 after the first three, which compile."""
    seconds = [each["seconds"] for each in run["ranks"]][:1]
    return statistics.median(seconds[0][3:]) if seconds and len(seconds[0]) > 3 else None


def _write(results: Path, record: dict[str, Any]) -> None:
    (results / "packing-runs.json").write_text(json.dumps(record, indent=1) + "\n")


def _judge(runs: dict[str, Any], log: str) -> None:
    """End with what is wrong, if anything is."""
    losses = {name: [float(row["loss"]) for row in run["log"]] for name, run in runs.items()}
    wrong = [f"{name} ended with {run['exit']}" for name, run in runs.items() if run["exit"]]
    pairs = zip(losses["upstream"], losses["first"], strict=False)
    if any(abs(one - other) > CLOSE * one for one, other in list(pairs)[:2]):
        wrong.append(f"losses differ: {losses}")
    if "tokens up to date" not in log:
        wrong.append("the third run has tokenised again")
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
