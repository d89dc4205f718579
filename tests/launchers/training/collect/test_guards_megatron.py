"""Both callbacks of a Megatron run that it ends with, among stand-ins of ms-swift's trainer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
FIRST_STEP = """
import json, sys, types
import torch
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from launchers.exits import LaunchError
from launchers.training import loading
loading.install("first_step_megatron")
asked = json.loads(sys.argv[1])

def logged(reward):
    names = ("rewards/margins", "logps/chosen", "logps/rejected", "rewards/chosen",
             "rewards/rejected", "nll_loss", "loss")
    loss = torch.nn.functional.softplus(torch.tensor(-reward)) + 0.5 * 2.0
    values = (reward, -30.0, -40.0, reward, 0.0, 2.0, float(loss))
    return dict(zip(names, map(torch.tensor, values), strict=True))

args = types.SimpleNamespace(**{
    "beta": 0.1, "label_smoothing": 0.0, "rpo_alpha": 0.5, "tuner_type": "full", "model": "/m",
    "ref_model": "/m", "mcore_model": None, "mcore_ref_model": None, **asked.get("args", {})})
trainer = types.SimpleNamespace(
    args=args, state=types.SimpleNamespace(iteration=asked.get("iteration", 0)),
    config=types.SimpleNamespace(attention_dropout=asked.get("dropout", 0.0)),
    train_step=lambda data: ([logged(r) for r in asked["rewards"]], 1.0, True),
    **({"reference_is_precomputed": True, "reference_source": asked["source"]}
       if "source" in asked else {}))
callback = megatron_callbacks_map["first_step"](trainer)
upstream = trainer.train_step
callback.on_train_begin()
try:
    for _ in range(2):
        trainer.train_step(None)
        trainer.state.iteration += 1
        callback.on_step_end()
        asked["rewards"] = [9.0]  # later steps are not judged
    print("trained", trainer.train_step is upstream)
except LaunchError as error:
    print(error.id, error)
"""


ADAPTER = {"tuner_type": "lora", "lora_dropout": 0.0, "adapters": ["/a"], "ref_adapters": ["/a"]}


def first_step(folder: Path, **asked: Any) -> str:
    program = f"import sys; sys.argv.append({json.dumps(json.dumps(asked))})\n{FIRST_STEP}"
    return fake_upstream.run(folder, program, fake_upstream.CALLBACKS)


def test_the_first_step_and_only_it_is_judged(tmp_path: Path) -> None:
    assert first_step(tmp_path, rewards=[0.0, 0.0]) == "trained True"
    assert first_step(tmp_path, rewards=[0.02, -0.02]) == "trained True"  # their mean counts
    said = first_step(tmp_path, rewards=[0.0, 0.02], source="store")
    assert said.startswith("first-step-reference the reference moved")
    assert "mean margin 0.01 " in said


OF_POLICY = ({"source": "pass"}, {"args": {"tuner_type": "lora"}})


@pytest.mark.parametrize("asked", [*OF_POLICY, {}, {"args": ADAPTER}])
def test_the_side_follows_from_the_source_of_the_reference(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    said = first_step(tmp_path, rewards=[0.05], **asked)
    side = "policy" if asked in OF_POLICY else "policy or reference"
    assert said.startswith(f"first-step-reference the {side} moved")


RESUMED = "/run/checkpoint-7"
ARGS: list[dict[str, Any]] = [
    {"model": RESUMED},
    {"tuner_type": "lora", "adapters": [RESUMED]},
    ADAPTER | {"adapters": [RESUMED]},
    ADAPTER | {"lora_dropout": 0.05},
]


@pytest.mark.parametrize(
    "asked", [{"iteration": 7}, {"dropout": 0.1}, *({"args": each} for each in ARGS)]
)
def test_a_run_that_resumes_or_draws_random_numbers_is_not_judged(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    assert first_step(tmp_path, rewards=[0.05], **asked).startswith("trained")


ROWS = """
import types
import torch
from torch.utils.data import DataLoader
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from launchers.training import loading
from launchers.training.collect.batch_rows import CURRENT, error
loading.install("nonfinite_megatron")

class Packs(torch.utils.data.Dataset):
    packed_idx = [[0, 5], [1], [2, 6], [3], [4, 7], [8]]
    rows = [{"chosen_input_ids": [n], "lengths": 1} for n in range(9)]
    dataset = types.SimpleNamespace(dataset=rows)
    def __len__(self): return len(self.packed_idx)
    def __getitem__(self, index): return index

loss = iter([0.1, 0.2, 0.3, float("nan")])
model = types.SimpleNamespace(training=True)
trainer = types.SimpleNamespace(
    args=types.SimpleNamespace(num_microbatches=2), state=types.SimpleNamespace(iteration=4),
    template=types.SimpleNamespace(
        tokenizer=types.SimpleNamespace(decode=lambda ids: f"text of {ids}")),
    unwrapped_models=[model], loss_func=lambda output: (torch.tensor(next(loss)), {}),
    _create_dataloader=lambda dataset, sampler: DataLoader(
        dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True))
callback = megatron_callbacks_map["nonfinite"](trainer)
callback.on_train_begin()
order = [[5], [0], [2], [4], [1], [3]]
train = iter(trainer._create_dataloader(Packs(), order))
held_out = list(trainer._create_dataloader(Packs(), [[0], [1]]))
for number in range(2):
    callback.on_step_begin()
    for _ in range(2):
        next(train)
        trainer.loss_func(None)
    if number == 0:
        trainer.state.iteration += 1
        callback.on_step_end()
    model.training = True
print(error(1, "the gradients of bucket 0", float("nan")))
"""


def test_the_rows_of_the_microbatch_are_reported_while_workers_read_ahead(tmp_path: Path) -> None:
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    program = f"import os; os.environ['DPO_ATTEMPT_FOLDER'] = {str(attempt)!r}\n{ROWS}"
    said = fake_upstream.run(tmp_path, program, fake_upstream.CALLBACKS)
    assert "on rank 1 at step 6, rows 4, 7 of the tokenised training dataset" in said
    written = (attempt / "not-finite-1.jsonl").read_text().splitlines()
    rows = [{"row": row, "chosen_text": f"text of [{row}]"} for row in (4, 7)]
    assert [json.loads(line) for line in written] == rows


ZERO = """
import types
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from launchers.exits import LaunchError
from launchers.training import loading
for name in ("nonfinite_megatron", "zero_gradient"):
    loading.install(name)

def steps(norm, clip):
    loading.INSTALLED.clear()
    loading.install("zero_gradient")
    trainer = types.SimpleNamespace(
        args=types.SimpleNamespace(train_iters=100, clip_grad=clip),
        state=types.SimpleNamespace(iteration=0), _create_dataloader=None,
        template=types.SimpleNamespace(tokenizer=types.SimpleNamespace(decode=str)),
        optimizer=types.SimpleNamespace(step=lambda: (True, norm, None)))
    megatron_callbacks_map["nonfinite"](trainer).on_train_begin()
    for step in range(9):
        try:
            trainer.optimizer.step()
        except LaunchError as error:
            return f"{step + 1} {error.id}"
    return "9"

print(steps(0.0, 1.0), steps(0.5, 1.0), steps(None, 1.0), steps(0.0, 0.0), sep=", ")
"""


def test_gradients_of_0_end_a_run_whose_optimizer_computes_their_norm(tmp_path: Path) -> None:
    said = fake_upstream.run(tmp_path, ZERO, fake_upstream.CALLBACKS)
    assert said == "5 gradient-zero, 9, 9, 9"
