"""The Megatron callback for real, with torch on CPU, around a stand-in of the trainer."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.plan import flops, model_config
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_training

pytestmark = needs_training

MODULE = "tests.launchers.training.collect.megatron_run"
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
ARGS: dict[str, Any] = {
    "train_iters": 3,
    "microbatches": 2,
    "moe_layers": [1, 2],
    "rows": [1, 3, 1, 3],
    "rlhf_type": "dpo",
    "packing": True,
    "packing_length": 1000,
    "global_batch_size": 4,
}


def run(home: Path, asked: Any, ranks: int = 1, code: int = 0, **env: str) -> list[Any]:
    env = {"DPO_RUN_FOLDER": str(home), "DPO_ATTEMPT_FOLDER": str(home / "attempts" / "1"), **env}
    printed = ranks_on_cpu.together(MODULE, json.dumps(asked), ranks=ranks, code=code, **env)
    return [json.loads(out) if out else None for out in printed]


def train(home: Path, world: int = 1, code: int = 0, env: Any = (), **change: Any) -> list[Any]:
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(json.dumps(CONFIG))
    asked = {**ARGS, "model_dir": str(home), "output_dir": str(home), **change}
    return run(home, asked, world, code, **dict(env))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], list[Any], Path]:
    """Two data-parallel ranks, two experts each; rank 1 reads longer sequences."""
    home = tmp_path_factory.mktemp("two")
    printed = train(home, 2)
    return reader.read(home / "metrics.jsonl", Row), printed, home


def test_a_step_counts_the_tokens_of_all_ranks_once(two: Any) -> None:
    rows, _, _ = two
    assert [(row.step, row.total, row.attempt) for row in rows] == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
    last = rows[-1]
    lengths = 2 * [100, 300, 200, 300]  # two microbatches of each rank
    assert (last.tokens, last.sequences, last.world) == (sum(lengths), len(lengths), 2)
    assert last.squares == sum(n * n for n in lengths)
    assert last.token_balance == pytest.approx(1000 / 900)
    assert last.fill == 1800 / 4000


def test_speed_is_the_planners_formula_at_the_steps_own_lengths(two: Any) -> None:
    rows, _, _ = two
    last = rows[-1]
    rate = last.tokens / last.seconds / 2
    assert last.tokens_per_second_per_gpu == pytest.approx(rate, rel=1e-9)
    found = 4 * flops.forward(model_config.parse_config(CONFIG), last.squares / last.tokens)
    assert last.model_tflops_per_gpu == pytest.approx(rate * found / 1e12, rel=1e-9)
    assert (last.card, last.mfu) == (None, None)  # there is no GPU here


def test_what_the_trainer_reports_is_averaged_over_the_microbatches(two: Any) -> None:
    last = two[0][-1]
    assert last.values == {"loss": 1.0, "nll": 0.75}  # a pair is a sum and a count
    assert (last.grad_norm, last.learning_rate) == (1.5, 5e-6)


def test_expert_load_counts_a_repeated_layer_once_and_no_filler(two: Any) -> None:
    last = two[0][-1]
    assert (last.expert_load, last.expert_load_worst) == (1.5, 1.5)  # rows 1, 3, 1, 3


def test_only_the_last_rank_writes_and_draws(two: Any) -> None:
    _, printed, home = two
    assert len((home / "metrics.jsonl").read_text().splitlines()) == 3
    assert printed[0]["drawn"] == {}
    assert [step for step, _ in printed[1]["drawn"]["speed/seconds"]] == [1, 2, 3]


def test_ranks_that_read_the_same_count_once_also_for_an_unknown_model(tmp_path: Path) -> None:
    train(tmp_path, 2, env={"TP": "2"}, model_dir="/nowhere")
    last = reader.read(tmp_path / "metrics.jsonl", Row)[-1]
    assert last.tokens == 800
    assert (last.model_tflops_per_gpu, last.mfu) == (None, None)


def test_chunks_of_a_virtual_pipeline_and_a_precomputed_reference(tmp_path: Path) -> None:
    train(tmp_path, chunks=True, reference_is_precomputed=True)
    last = reader.read(tmp_path / "metrics.jsonl", Row)[-1]
    assert last.tokens == 800
    assert last.model_tflops_per_gpu and last.tokens_per_second_per_gpu
    each = last.model_tflops_per_gpu / last.tokens_per_second_per_gpu
    assert each == pytest.approx(3 * flops.forward(model_config.parse_config(CONFIG), 250) / 1e12)


def test_an_evaluation_is_a_line_of_its_own_by_the_last_rank(tmp_path: Path) -> None:
    train(tmp_path, 2, evaluates=True)
    path = tmp_path / "metrics.jsonl"
    assert [row.step for row in reader.read(path, Row)] == [1, 2, 3]
    found = reader.read(path, Evaluation)
    seen = [(each.step, each.total, each.attempt) for each in found]
    assert seen == [(n, 3, 1) for n in (1, 2, 3)]
    assert found[0].values == {"loss": 0.5, "rewards/margins": 1.5}
    assert 0 < found[0].seconds < 10


def test_a_killed_run_loses_its_last_step_and_a_resumed_one_writes_it_again(tmp_path: Path) -> None:
    train(tmp_path, code=9, dies=2)
    before = reader.read(tmp_path / "metrics.jsonl", Row)
    assert [(row.step, row.attempt) for row in before] in ([], [(1, 1)])  # written aside
    second = {"DPO_ATTEMPT_FOLDER": str(tmp_path / "attempts" / "2")}
    train(tmp_path, env=second, start=1)
    after = reader.read(tmp_path / "metrics.jsonl", Row)
    assert [(row.step, row.attempt) for row in after][-2:] == [(2, 2), (3, 2)]


def test_a_step_costs_the_training_thread_less_than_a_fifth_of_a_millisecond(
    tmp_path: Path,
) -> None:
    [found] = run(tmp_path, 10_000)
    assert found["median"] < 200e-6  # 20 to 60 on shared cores
    assert len(reader.read(tmp_path / "metrics.jsonl", Row)) == 10_000
