"""FLOP per token: the table of the 30B model, to its published digits."""

from dataclasses import replace

import pytest

from launchers.plan import flops
from launchers.plan.layout import Layout
from launchers.plan.training_job import Training
from tests.launchers.models import load_model_config

QWEN = load_model_config("Qwen3-30B-A3B")
DPO = Training(layout=Layout(nodes=1, gpus_per_node=1), recompute="full")


@pytest.mark.parametrize(
    ("s_eff", "forward", "model", "hardware"),
    [(1024, 6.46, 25.8, 32.3), (2048, 6.86, 27.4, 34.3), (4096, 7.67, 30.7, 38.3)],
)
def test_the_table_of_the_30b(s_eff: int, forward: float, model: float, hardware: float) -> None:
    assert flops.forward(QWEN, s_eff) / 1e9 == pytest.approx(forward, abs=0.006)
    assert flops.model_flops(QWEN, DPO, s_eff) / 1e9 == pytest.approx(model, abs=0.06)
    assert flops.hardware_flops(QWEN, DPO, s_eff) / 1e9 == pytest.approx(hardware, abs=0.06)


def test_only_recomputed_layers_cost_a_pass_more() -> None:
    block = replace(DPO, recompute_method="block", recompute_num_layers=36)
    assert flops.recomputed(QWEN, DPO) == 1
    assert flops.recomputed(QWEN, block) == 0.75
    staged = replace(block, layout=Layout(nodes=1, gpus_per_node=2, pp=2), recompute_num_layers=6)
    assert flops.recomputed(QWEN, staged) == 0.25
    assert flops.recomputed(QWEN, replace(block, recompute_num_layers=64)) == 1
    assert flops.recomputed(QWEN, replace(block, recompute="none")) == 0


def test_a_dense_model_counts_each_weight_twice() -> None:
    model = load_model_config("Qwen2.5-7B")
    weights = model.parameters - model.embedding_parameters
    assert flops.forward(model, 0) == pytest.approx(2 * weights, rel=1e-4)
