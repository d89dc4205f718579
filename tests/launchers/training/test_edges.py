"""What ms-swift's trainers compute with our features, on some ranks with megatron-core on CPU."""

import pytest

from tests.launchers.training import ranks_on_cpu
from tests.launchers.training_environment import needs_oracle


@needs_oracle
@pytest.mark.parametrize(
    ("module", "ranks", "things"),
    [
        ("experts.rows_edge", 1, 19),  # rows and calls of kernels are upstream's
        ("experts.rank_order_edge", 4, 4),  # sums of the experts' outputs are equal on each rank
        ("packs.gather_edge", 2, 20),  # gathered tokens give the numbers of all-to-all
        ("packs.prompt_edge", 2, 8),  # prompts once give the numbers of whole texts
        ("packs.counted_edge", 2, 10),  # the head computes counted tokens only
    ],
)
def test_all_that_a_module_shows_holds_on_each_rank(module: str, ranks: int, things: int) -> None:
    assert ranks_on_cpu.held(f"tests.launchers.training.{module}", ranks=ranks) == things
