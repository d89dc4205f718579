"""What the Megatron callback of the ledger writes, of two ranks, over two epochs and a resume."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training.ledger.reading import columns
from tests.launchers.training_environment import needs_training

pytestmark = needs_training


def train(home: Path, *features: str) -> list[str]:
    module = "tests.launchers.training.ledger.megatron_run"
    printed = ranks_on_cpu.together(module, str(home), *features, DPO_RUN_FOLDER=str(home))
    return printed[0].splitlines()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run whose packs weigh the same."""
    home = tmp_path_factory.mktemp("plain")
    return home, train(home)


def test_each_pair_of_all_ranks_is_there_once_an_epoch_after_a_resume(plain: Any) -> None:
    home, said = plain
    first, third = "steps-00000001.parquet", "steps-00000003.parquet"
    # the pairs are there before the checkpoint; the numbers of all rows are read once a run
    assert said == [f"SAVED {[[first]]} READ 1", "SAVED [] READ 1"]
    names = sorted(path.name for path in (home / "pairs").iterdir())
    assert names == [first, third, "summary.json"]
    files, found = columns(home, "step", "epoch", "pair", "pack", "file", "row")
    packs = [[0, 1, 2], [3], [4, 5], [6], [7], [8]]
    expected = []
    for step in (1, 2, 3, 4):
        for at in range(4 * step - 4, 4 * step):  # a step of four packs, an epoch of six
            epoch, pack = divmod(at, 6)
            for pair in packs[pack]:
                file = files.index("a" if pair < 4 else "b")
                expected.append([step, epoch + 1, pair, pack, file, 100 + pair])
    assert found == sorted(expected)
    seen = json.loads((home / "pairs" / "summary.json").read_text())
    counted = [(e["once"], e["again"]["count"], e["not_trained"]) for e in seen["epochs"]]
    assert counted == [(9, 0, 1), (9, 0, 1), (7, 0, 3)]  # the last epoch is not over


def test_log_probabilities_and_margin_are_those_of_the_loss(plain: Any) -> None:
    names = "pair", "chosen", "rejected", "reference_chosen", "reference_rejected", "margin"
    _, found = columns(plain[0], *names)
    assert {pair for pair, *_ in found} == {*range(9)}
    for pair, *values in found:
        assert values == pytest.approx([-pair, -pair - 2, -pair - 1, -pair - 1, 0.2])


def test_the_weights_of_a_step_are_shares_of_its_loss(plain: Any, tmp_path: Path) -> None:
    train(tmp_path, "pair_weights")
    by_pack, equal = (
        [weight for _, _, weight in columns(home, "step", "pair", "weight")[1][:7]]
        for home in (plain[0], tmp_path)
    )
    assert by_pack == pytest.approx([1 / 12] * 3 + [1 / 4] + [1 / 8] * 2 + [1 / 4])
    assert equal == pytest.approx([1 / 7] * 7)
