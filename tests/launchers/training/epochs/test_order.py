"""The order of rows in a resumed epoch, with the data loaders of the real ms-swift."""

import json

import pytest

from tests.launchers import warm
from tests.launchers.training.epochs.order_probe import BATCH, ROWS, SKIPPED
from tests.launchers.training_environment import NEXT, OLDEST, STACK, needs_training

pytestmark = needs_training
LOADERS = ("plain", "sequence parallel")
VERSIONS = ("transformers 4", "transformers 5")
Orders = dict[str, dict[str, list[int]]]


def orders(*features: str) -> Orders:
    said = warm.printed("-m", "tests.launchers.training.epochs.order_probe", *features)
    found: Orders = json.loads(said.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def upstream() -> Orders:
    return orders()


@pytest.fixture(scope="module")
def ours() -> Orders:
    return orders("epoch_order")


def rest(order: list[int]) -> list[int]:
    return order[SKIPPED * BATCH :]


def test_upstream_resumes_under_transformers_4_in_the_first_epochs_order(upstream: Orders) -> None:
    plain = upstream["plain"]
    assert plain["first"] != plain["second"]
    assert plain["transformers 4"] == rest(plain["first" if STACK is OLDEST else "second"])
    assert plain["transformers 5"] == rest(plain["second"])


def test_upstream_repeats_the_first_epochs_order_with_sequence_parallelism(
    upstream: Orders,
) -> None:
    found = upstream["sequence parallel"]
    assert (found["first"] == found["second"]) == (STACK is not NEXT)
    for version in VERSIONS:
        assert found[version] == rest(found["first"])


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_resume_reads_the_rest_of_its_own_epoch(ours: Orders, loader: str, version: str) -> None:
    found = ours[loader]
    assert found["first"] != found["second"]
    assert found[version] == rest(found["second"])
    assert sorted(found["second"]) == list(range(ROWS))


def test_undisturbed_epochs_keep_upstreams_order(ours: Orders, upstream: Orders) -> None:
    for name in ("first", "second"):
        assert ours["plain"][name] == upstream["plain"][name]
