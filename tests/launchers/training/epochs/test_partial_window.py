"""Gradients of the last accumulation window of an epoch, with ms-swift's real trainer on CPU."""

import json

import pytest

from tests.launchers import warm
from tests.launchers.training import demo_run
from tests.launchers.training.epochs.window_probe import MICROBATCHES, WINDOW
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
Steps = dict[str, list[tuple[float, float, float]]]
"""By run, for each step: the loss, the right loss, and the relative error of the gradients."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    folder = tmp_path_factory.mktemp("window")
    demo_run.sources_of(folder, rows=2 * MICROBATCHES)
    env = {"HF_HUB_OFFLINE": "1", "MODELSCOPE_CACHE": str(folder / "cache")}
    said = warm.printed("-m", "tests.launchers.training.epochs.window_probe", folder, **env)
    line = next(line for line in said.splitlines() if line.startswith("PROBE "))
    steps: Steps = json.loads(line.removeprefix("PROBE "))
    return steps


def test_upstream_divides_a_partial_window_by_the_configured_number(found: Steps) -> None:
    (_, _, whole), (loss, right, partial) = found["upstream"]
    last = MICROBATCHES % WINDOW
    assert whole < 1e-5
    assert partial == pytest.approx(1 - last / WINDOW, rel=1e-4)
    assert loss == pytest.approx(right * last / WINDOW, rel=1e-5)


def test_every_window_has_the_mean_gradient_of_its_microbatches(found: Steps) -> None:
    for loss, right, difference in found["ours"]:
        assert difference < 1e-5
        assert loss == pytest.approx(right, rel=1e-5)
