"""Real runs on CPU that a wrong reference or a NaN ends, before a checkpoint is saved."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from launchers.system.failures import Verdict, verdict
from tests.launchers.training import demo_run
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
REFERENCE = """
from swift.rlhf_trainers.dpo_trainer import DPOTrainer
inner = DPOTrainer.compute_ref_log_probs
def compute_ref_log_probs(self, batch):
    chosen, rejected = inner(self, batch)
    return 2 * chosen, 2 * rejected - 1
DPOTrainer.compute_ref_log_probs = compute_ref_log_probs
"""
POISON = 7
NAN = f"""
from swift.rlhf_trainers.dpo_trainer import DPOTrainer
from swift.dataset.utils import LazyLLMDataset
inner, item = DPOTrainer.get_batch_loss_metrics, LazyLLMDataset.__getitem__
poisoned = []
def __getitem__(self, index):
    row = item(self, index)
    if index == {POISON}:
        poisoned.append(row["rejected_input_ids"])
    return row
def get_batch_loss_metrics(self, model, batch, train_eval="train", **named):
    loss, metrics = inner(self, model, batch, train_eval, **named)
    texts = [ids[mask.bool()].tolist() for ids, mask in
             zip(batch["input_ids"], batch["attention_mask"])]
    return loss * (float("nan") if any(p in texts for p in poisoned) else 1), metrics
DPOTrainer.get_batch_loss_metrics, LazyLLMDataset.__getitem__ = get_batch_loss_metrics, __getitem__
"""
NOTHING = """
from swift.rlhf_trainers.dpo_trainer import DPOTrainer
inner = DPOTrainer.get_batch_loss_metrics
def get_batch_loss_metrics(self, *given, **named):
    loss, metrics = inner(self, *given, **named)
    return loss.detach() + 0 * loss, metrics
DPOTrainer.get_batch_loss_metrics = get_batch_loss_metrics
"""
STEPS = {"max_steps": 3, "save_steps": 1, "dataloader_num_workers": 0} | {
    "dataloader_persistent_workers": False  # ms-swift 4.5.3 refuses it without workers
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_run.prepared(tmp_path_factory.mktemp("guards"), rows=16)


def plugin(folder: Path, text: str) -> Path:
    path = folder / "spoiled.py"
    path.write_text(text)
    return path


def judged(home: Path, wrong: Path, attempt: int, changes: Mapping[str, Any] = STEPS) -> Verdict:
    """Train with a plugin; return the launcher's verdict on the run, from its rank's own log."""
    done = demo_run.train(home, changes, attempt=attempt, plugins=(wrong,))
    assert done.returncode == 1, done.stdout[-2000:]
    [log] = (home / "attempts" / str(attempt)).glob("ranks/**/stderr.log")
    found = verdict(log.read_text(), started=True)
    assert found is not None
    return found


def test_another_reference_ends_the_run_before_a_checkpoint(home: Path, tmp_path: Path) -> None:
    found = judged(home, plugin(tmp_path, REFERENCE), 1)
    assert (found.id, found.code) == ("first-step-reference", Exit.CONFIG)
    assert "the reference moved before the first step" in found.cause
    assert not list((home / "checkpoints").glob("checkpoint-*"))


def test_the_check_may_be_switched_off_and_a_right_start_passes(home: Path, tmp_path: Path) -> None:
    wrong, steps = plugin(tmp_path, REFERENCE), STEPS | {"max_steps": 1}
    allowed = demo_run.trained(home, steps, attempt=2, plugins=(wrong,), checkFirstStep=False)
    assert "first_step_transformers" not in allowed
    smoothed = {"label_smoothing": 0.2, "loss_type": ["sigmoid", "hinge"], "loss_weights": [1, 0.5]}
    right = demo_run.trained(home, steps | smoothed, attempt=3)
    assert "first_step_transformers" in right


def test_an_adapter_that_is_also_the_reference_is_judged(home: Path, tmp_path: Path) -> None:
    lora = STEPS | {"tuner_type": "lora", "learning_rate": 1e-2, "max_steps": 1}
    demo_run.trained(home, lora, attempt=5)
    adapter = tmp_path / "adapter"
    (home / "checkpoints" / "checkpoint-1").rename(adapter)
    both = lora | {"adapters": [str(adapter)], "ref_adapters": [str(adapter)]}
    assert "first_step_transformers" in demo_run.trained(home, both, attempt=6)
    found = judged(home, plugin(tmp_path, REFERENCE), 7, both)
    assert found.id == "first-step-reference"
    assert "with an adapter from the policy's files" in found.cause


def test_a_run_that_trains_nothing_ends(home: Path, tmp_path: Path) -> None:
    found = judged(home, plugin(tmp_path, NOTHING), 8)
    assert (found.id, found.code) == ("gradient-zero", Exit.DATA)


def test_nan_ends_the_run_with_its_rows(home: Path, tmp_path: Path) -> None:
    batches = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "max_steps": 4}
    found = judged(home, plugin(tmp_path, NAN), 4, STEPS | batches)
    assert (found.id, found.code) == ("value-not-finite", Exit.DATA)
    assert "LaunchError: NaN in the " in found.cause
    [file] = (home / "attempts" / "4").glob("not-finite-0.jsonl")
    [row] = map(json.loads, file.read_text().splitlines())  # the microbatch, not the whole step
    assert row["row"] == POISON
    assert f"rows {POISON} of the tokenised training dataset" in found.cause
    assert row["chosen_text"] != row["rejected_text"]
    assert all(row[f"{side}_text"].strip() for side in ("chosen", "rejected"))
