"""Counts of the transformers callback, with torch and ms-swift for real."""

import json
from pathlib import Path

from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
COUNT = """
import json
from types import SimpleNamespace
import torch
from launchers.training.collect.collect_transformers import MetricsCallback
args, trainer = SimpleNamespace(device="cpu"), SimpleNamespace(template=None)
callback, mask = MetricsCallback(args, trainer), torch.tensor([[1, 1, 0], [1, 1, 1]])
kto = {"completion_attention_mask": mask, "KL_completion_attention_mask": mask}
print(json.dumps([callback._counted(b).tolist() for b in ({"attention_mask": mask}, kto, {})]))
"""
EVALUATE = """
import json, os
from types import SimpleNamespace
from launchers.training.collect.collect_transformers import MetricsCallback
args = SimpleNamespace(device="cpu", output_dir=os.environ["DPO_RUN_FOLDER"])
trainer = SimpleNamespace(template=None, get_batch_samples=None)
state = SimpleNamespace(is_world_process_zero=True, global_step=4, max_steps=9)
callback = MetricsCallback(args, trainer)
callback.on_train_begin(args, state, None)
callback.on_log(args, state, None, logs={"loss": 0.6})
scores = {"eval_loss": 0.5, "eval_rewards/accuracies": 0.75, "eval_runtime": 3.0, "epoch": 1.0}
callback.on_log(args, state, None, logs=scores)
callback.on_train_end(args, state, None)
"""


def test_an_evaluation_is_a_line_of_its_own(tmp_path: Path) -> None:
    warm.printed("-c", EVALUATE, DPO_RUN_FOLDER=str(tmp_path))
    assert reader.read(tmp_path / "metrics.jsonl", Row) == []
    [found] = reader.read(tmp_path / "metrics.jsonl", Evaluation)
    assert (found.step, found.total, found.attempt, found.seconds) == (4, 9, 1, 3.0)
    assert found.values == {"loss": 0.5, "rewards/accuracies": 0.75}


def test_tokens_are_counted_without_padding_and_in_kto_without_the_kl_rows() -> None:
    found = json.loads(warm.printed("-c", COUNT).splitlines()[-1])
    assert found == [[5.0, 13.0, 2.0], [5.0, 13.0, 2.0], [0.0, 0.0, 0.0]]
