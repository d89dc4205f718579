"""The demo's pairs, some with exchanged answers, trained on CPU with a restart."""

import json
import random
import shutil
from pathlib import Path

import pytest

from scripts.report import facts
from tests.launchers.training import demo_run
from tests.launchers.training.ledger.reading import columns
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
STEPS, BATCH, SAVED = 30, 16, 10
PAIRS = STEPS * BATCH
"""Of the 4,973: as many as CPUs train in less than a minute."""
FLIPPED = PAIRS // 100
CHANGES = {
    "per_device_train_batch_size": BATCH,
    "eval_strategy": "no",
    "split_dataset_ratio": 0,
    "save_steps": SAVED,
    "save_total_limit": 9,
}


def flip(path: Path) -> set[int]:
    """Exchange the answers of 1 % of the rows; return their numbers, from 1."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    chosen = set(random.Random(1).sample(range(len(lines)), FLIPPED))
    for n in chosen:
        lines[n] |= {"chosen": lines[n]["rejected"], "rejected": lines[n]["chosen"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return {n + 1 for n in chosen}


def area(bad: list[float], good: list[float]) -> float:
    """Return the area under the ROC curve: how often a bad pair has the lower margin."""
    return sum((b < g) + (b == g) / 2 for b in bad for g in good) / len(bad) / len(good)


def test_exchanged_answers_have_the_lowest_margins_and_a_restart_repeats_no_pair(
    tmp_path: Path,
) -> None:
    home = demo_run.prepared(tmp_path, rows=PAIRS)
    flipped = flip(home / "pairs.jsonl")
    demo_run.trained(home, {**CHANGES, "max_steps": SAVED + 5}, attempt=1)
    shutil.rmtree(home / "checkpoints" / f"checkpoint-{SAVED + 5}")
    found = demo_run.saved(home, SAVED)
    demo_run.trained(home, {**CHANGES, "max_steps": STEPS}, attempt=2, resume=found)

    summary = json.loads((home / "pairs" / "summary.json").read_text())
    once = f"{PAIRS} pairs, steps 1 to {STEPS}: each exactly once in each epoch"
    assert facts.proof(summary) == once
    files, pairs = columns(home, "row", "margin", "step", "weight")
    assert files == [str(home / "pairs.jsonl")]
    assert sorted(row for row, *_ in pairs) == list(range(1, PAIRS + 1))
    assert [weight for *_, weight in pairs] == pytest.approx([1 / BATCH] * PAIRS)
    bad, good = (
        [margin for row, margin, *_ in pairs if (row in flipped) is is_flipped]
        for is_flipped in (True, False)
    )
    assert area(bad, good) >= 0.9
    assert len(flipped & {each["row"] for each in summary["worst"]}) >= FLIPPED / 2
