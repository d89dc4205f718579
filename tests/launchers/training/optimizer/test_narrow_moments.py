"""bf16 moments saved as bf16: checkpoints with and without the patch load to the same bits."""

from pathlib import Path
from typing import Any

import pytest

from tests.engines.fetch import ENGINES, FILE
from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import NEXT

RELEASES = ("2.12.0", "2.16.1", "2.20.2")
SAVED = ("upstream", "narrow")
WAYS = {f"{saved} {loaded}" for saved in SAVED for loaded in SAVED}
pytestmark = [
    pytest.mark.skipif(
        not NEXT.is_installed or not all((ENGINES / v / FILE).exists() for v in RELEASES),
        reason="no .tools/train-4.6.0 or .tools/engines: run `make setup`",
    ),
]


def found(release: str, folder: Path) -> list[dict[str, Any]]:
    """Return what two ranks found with a release of Transformer Engine.

    megatron-core is that of the second stack: 0.16 of the first hands the state's padding to
    Transformer Engine, which does not take it.
    """
    module = "tests.launchers.training.optimizer.narrow_moments_ranks"
    return ranks_on_cpu.reports(module, str(folder), str(ENGINES / release), stack=NEXT)


@pytest.mark.parametrize("release", RELEASES)
def test_all_four_ways_restore_the_same_bits_and_the_same_course(
    release: str, tmp_path: Path
) -> None:
    ranks = found(release, tmp_path)
    assert len(ranks) == 2
    for rank in ranks:
        assert rank["unchanged"]
        assert rank["same"] == dict.fromkeys(WAYS, True)
        assert rank["course"] == dict.fromkeys(WAYS, True)
        assert rank["types"] == {
            "upstream": ["exp_avg torch.float32", "exp_avg_sq torch.float32", "param torch.int16"],
            "narrow": ["exp_avg torch.bfloat16", "exp_avg_sq torch.bfloat16", "param torch.int16"],
        }
        assert rank["size"]["narrow"] < rank["size"]["upstream"]
